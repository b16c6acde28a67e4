# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What every node that works on frames has: parameters, a worker, health, and one way to start and end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import rclpy
import rclpy.logging
from rclpy.exceptions import InvalidNamespaceException, NameValidationException, ParameterException
from rclpy.executors import SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions

from cacheinf_ros.config import Config
from cacheinf_ros.errors import CacheinfError
from cacheinf_ros.fast_dds import set_up_middleware
from cacheinf_ros.nodes.configured_node import ConfiguredNode
from cacheinf_ros.nodes.ros_logging import log_to_ros
from cacheinf_ros.nodes.watch import Watch
from cacheinf_ros.pipeline.health import Health, WorkState
from cacheinf_ros.pipeline.node_configs import WatchConfig
from cacheinf_ros.pipeline.worker import Inbox, Worker
from cacheinf_ros.quiet_end import call_on_signals, end_quietly_on_signals, ignore_signals

READY = "ready"
"""What a node logs when it takes frames."""

_GIVE_WAY_S = 0.005  # parameter services wait no longer for it
_SIGNAL_PATIENCE_S = 0.2  # Python sees a signal only when the executor returns


class FrameNode(ConfiguredNode):
    """A node whose callbacks store frames and whose worker thread works on them."""

    def __init__(self, name: str, *configs: type[Config]) -> None:
        super().__init__(name, *configs, WatchConfig)
        self.health = Health()
        self.ended = threading.Event()
        self._workers: list[Worker[Any]] = []
        self._gives_way = True

    def begin(
        self,
        inbox: Inbox[Any],
        work: Callable[[Any], None],
        rest: Callable[[], None] = lambda: None,
        *,
        before: Sequence[Worker[Any]] = (),
        gives_way: bool = True,
    ) -> None:
        """Start to work on what :meth:`store` puts into the inbox.

        Args:
            rest: what to do when nothing is left.
            before: the threads that a frame passes through before it is stored, in order.
            gives_way: whether :meth:`give_way` does; not where the work waits for packets that the executor receives.
        """
        worker = Worker(inbox, work, rest, self.health.failed)
        workers = self._workers = [*before, worker]
        self._gives_way = gives_way
        Watch(
            self,
            self.health,
            config=lambda: self.parameters.get(WatchConfig),
            work=self._work_state,
        )
        for each in workers:
            each.start()
        self.get_logger().info(READY)

    def store(self, change: Callable[[], None]) -> None:
        """Change the inbox, under the lock that the worker reads it with."""
        self._workers[-1].tell(change)

    def give_way(self) -> None:
        """Let the frame that has just come be worked on before the executor goes on, for a few milliseconds at most."""
        deadline = time.monotonic() + _GIVE_WAY_S
        for worker in self._workers if self._gives_way else ():
            worker.give_way(max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        """Finish the frames at hand."""
        for worker in self._workers:
            worker.stop()

    def _work_state(self) -> WorkState:
        workers = self._workers
        return WorkState(
            busy_s=workers[-1].busy_s,
            dropped=sum(worker.dropped for worker in workers),
            is_owed=any(worker.is_owed for worker in workers),
            has_died=any(worker.has_died for worker in workers),
        )


START_ERRORS = (CacheinfError, ParameterException, NameValidationException, InvalidNamespaceException)
"""What the user can do something about: everything else is a bug and keeps its traceback."""


class Runnable(Protocol):
    """What :func:`run_node` asks of a node beside being one."""

    ended: threading.Event
    """Set when the node is to end."""

    def give_way(self) -> None:
        """Let other threads work after a callback."""
        ...

    def close(self) -> None:
        """Finish what is at hand; may raise what ended the node."""
        ...


def run_node(name: str, make: Callable[[], Runnable], arguments: list[str] | None = None) -> int:
    """Run a node until it is interrupted or ends.

    Returns:
        the exit code: 0, or 2 where the node could not do its work; then one line says why.
    """
    set_up_middleware()
    end_quietly_on_signals(rclpy.try_shutdown)
    try:
        # rclpy's own handlers would invalidate the publishers before the frame at hand has its result
        rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
        log_to_ros(name)
        _spin(make())
        code = 0
    except START_ERRORS as error:
        rclpy.logging.get_logger(name).fatal(" ".join(str(error).split()))
        code = 2
    finally:
        ignore_signals()
        rclpy.try_shutdown()
    return code


def _spin(node: Any) -> None:
    call_on_signals(node.ended.set)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    try:
        while not node.ended.is_set():
            executor.spin_once(timeout_sec=_SIGNAL_PATIENCE_S)
            node.give_way()
    finally:
        ignore_signals()  # one may come twice
        node.close()
        executor.shutdown()  # before rclpy's own: what is left of it then cannot be destroyed any more
        node.destroy_node()
