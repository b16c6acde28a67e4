"""What every node that works on frames has: parameters, a worker, health, and one way to start and end."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import rclpy
import rclpy.logging
from rclpy.exceptions import InvalidNamespaceException, NameValidationException, ParameterException
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import Header

from cacheinf_ros.config import Config
from cacheinf_ros.errors import CacheinfError
from cacheinf_ros.nodes.configs import WatchConfig
from cacheinf_ros.nodes.conversions import stamp_ns
from cacheinf_ros.nodes.health import Health
from cacheinf_ros.nodes.parameters import Parameters
from cacheinf_ros.nodes.watch import Watch
from cacheinf_ros.nodes.worker import Inbox, Worker

READY = "ready"
"""What a node logs when it takes frames."""

_NS_PER_MS = 1e6
_SIGNAL_PATIENCE_S = 0.2  # Python sees a signal only when the executor returns


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message with a frame in it, as it was stored by the callback."""

    message: Any
    received_ns: int = field(default_factory=time.monotonic_ns)

    @property
    def header(self) -> Header:
        """The frame's header."""
        header: Header = self.message.header
        return header

    @property
    def stamp_ns(self) -> int:
        """The frame's stamp in nanoseconds."""
        return stamp_ns(self.header)

    @property
    def age_ms(self) -> float:
        """Time since the message arrived, in milliseconds."""
        return (time.monotonic_ns() - self.received_ns) / _NS_PER_MS


class FrameNode(Node):
    """A node whose callbacks store frames and whose worker thread works on them."""

    def __init__(self, name: str, *configs: type[Config]) -> None:
        super().__init__(name)
        self.parameters = Parameters(self, WatchConfig, *configs)
        self.health = Health()
        self.ended = threading.Event()
        self._worker: Worker[Any] | None = None

    def begin(
        self,
        inbox: Inbox[Any],
        work: Callable[[Any], None],
        rest: Callable[[], None] = lambda: None,
        *,
        more_dropped: Callable[[], int] = lambda: 0,
    ) -> None:
        """Start to work on what :meth:`store` puts into the inbox.

        Args:
            rest: what to do when nothing is left.
            more_dropped: how many frames were dropped before they got into the inbox.
        """
        worker = self._worker = Worker(inbox, work, rest)
        Watch(
            self,
            self.health,
            config=lambda: self.parameters.get(WatchConfig),
            busy_s=lambda: worker.busy_s,
            dropped=lambda: inbox.dropped + more_dropped(),
        )
        worker.start()
        self.get_logger().info(READY)

    def store(self, change: Callable[[], None]) -> None:
        """Change the inbox, under the lock that the worker reads it with."""
        assert self._worker is not None
        self._worker.tell(change)

    def close(self) -> None:
        """Finish the frame at hand."""
        if self._worker is not None:
            self._worker.stop()


START_ERRORS = (CacheinfError, ParameterException, NameValidationException, InvalidNamespaceException)
"""What the user can do something about: everything else is a bug and keeps its traceback."""


class Runnable(Protocol):
    """What :func:`run_node` asks of a node beside being one."""

    ended: threading.Event
    """Set when the node is to end."""

    def close(self) -> None:
        """Finish what is at hand; may raise what ended the node."""
        ...


def run_node(name: str, make: Callable[[], Runnable], arguments: list[str] | None = None) -> int:
    """Run a node until it is interrupted or ends.

    Returns:
        the exit code: 0, or 2 where the node could not do its work; then one line says why.
    """
    try:
        # rclpy's own handlers would invalidate the publishers before the frame at hand has its result
        rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
        _spin(make())
    except KeyboardInterrupt:
        pass
    except START_ERRORS as error:
        rclpy.logging.get_logger(name).fatal(" ".join(str(error).split()))
        return 2
    finally:
        rclpy.try_shutdown()
    return 0


def _spin(node: Any) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: node.ended.set())
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    try:
        while not node.ended.is_set():
            executor.spin_once(timeout_sec=_SIGNAL_PATIENCE_S)
    finally:
        node.close()
        executor.shutdown()  # before rclpy's own: what is left of it then cannot be destroyed any more
