# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What all nodes that work on frames share: parameters, a worker thread, health, and how they start and end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import rclpy
import rclpy.logging
from rclpy.impl.rcutils_logger import RcutilsLogger
from rclpy.signals import SignalHandlerOptions

from cacheinf_ros.config import Config
from cacheinf_ros.errors import EngineError
from cacheinf_ros.fast_dds import set_up_middleware
from cacheinf_ros.nodes.managed_node import START_ERRORS, ManagedNode
from cacheinf_ros.nodes.node_threads import NodeThreads
from cacheinf_ros.nodes.ros_logging import log_to_ros
from cacheinf_ros.nodes.topics import camera_topic
from cacheinf_ros.nodes.watch import Watch
from cacheinf_ros.pipeline import Health, Inbox, Worker, WorkState, logging_as
from cacheinf_ros.pipeline.node_configs import ImageConfig, WatchConfig
from cacheinf_ros.quiet_end import end_quietly_on_signals, ignore_signals
from cacheinf_ros.shared_segments import give_up_unfinished_ports, remove_abandoned_segments, watched_ports

_log = logging.getLogger(__name__)
READY = "ready"
"""What a node logs once it takes frames."""

_FINISHED_S = 10.0  # how long deactivating waits for the frame being worked on
_FINISHED_AT_THE_END_S = 3.0  # the same at the end: users press Ctrl-C again, launch files kill what does not end
_GIVE_WAY_S = 0.005  # so long parameter services may have to wait


class FrameNode(ManagedNode):
    """A node whose callbacks store frames and whose worker thread works on them, while it is active."""

    def __init__(self, name: str, *configs: type[Config], **options: Any) -> None:
        """Declare the parameters, and begin to report health; ``options`` are passed to rclpy's Node."""
        super().__init__(name, *configs, WatchConfig, **options)
        self.health = Health()
        self.ended = threading.Event()
        self._workers: list[Worker[Any]] = []
        self._dropped = 0  # frames that earlier workers dropped
        self._gives_way = True
        self._patience_s = _FINISHED_S
        Watch(
            self,
            self.health,
            config=lambda: self.parameters.get(WatchConfig),
            work=lambda: replace(self.work_state(), at_rest=self.standing.value, failure=self._failure_told),
            hardware_id=camera_topic(self, self.parameters.get(ImageConfig)) if ImageConfig in configs else "",
        )

    def activate(self) -> None:
        """Begin to work; raises :class:`EngineError` while the last frame from before is still being worked on."""
        if not self._has_finished:
            raise EngineError("the last frame is still being worked on: activate the node again in some seconds")

    @property
    def _has_finished(self) -> bool:
        """Whether nobody works on a frame, nor will before the next :meth:`begin`."""
        return not any(worker.is_alive for worker in self._workers)

    def begin(
        self,
        inbox: Inbox[Any],
        work: Callable[[Any], None],
        rest: Callable[[], None] = lambda: None,
        *,
        before: Sequence[Worker[Any]] = (),
        gives_way: bool = True,
    ) -> None:
        """Start to work on what :meth:`store` puts into the inbox, until :meth:`deactivate`.

        Args:
            inbox: where frames wait.
            work: works on one frame.
            rest: is called when no frame waits.
            before: the workers that a frame passes through before it is stored, in order.
            gives_way: whether :meth:`give_way` waits; False where the work needs packets that the executor receives.
        """
        self._dropped += sum(worker.dropped for worker in self._workers)
        self._workers = [*before, Worker(inbox, work, rest, self.health.failed)]
        self._gives_way = gives_way
        for each in self._workers:
            each.start()
        self._begun()

    def _begun(self) -> None:
        """Log and report that frames are taken from now on."""
        self.health.restart()
        self.get_logger().info(READY)

    def deactivate(self) -> None:
        """Finish the frames being worked on, unless that takes long, and drop those that wait."""
        deadline = time.monotonic() + self._patience_s
        if not all([worker.stop(max(0.0, deadline - time.monotonic())) for worker in self._workers]):
            self.get_logger().warning(
                f"the frame at hand was not finished in {self._patience_s:g} s: its result may never come"
            )

    def _ends_soon(self) -> bool:
        """Drop the frames that wait, without waiting for those being worked on; returns whether all are finished."""
        return all([worker.stop(0.0) for worker in self._workers])

    def close(self) -> None:
        """Finish what is being worked on, with a shorter timeout than usual, and free what is loaded."""
        self._patience_s = _FINISHED_AT_THE_END_S
        super().close()

    def store(self, change: Callable[[], None]) -> None:
        """Change the inbox, under the lock with which the worker reads it."""
        self._workers[-1].tell(change)

    def give_way(self) -> None:
        """Let the frame that has just come be worked on before the executor goes on, for a few milliseconds at most."""
        deadline = time.monotonic() + _GIVE_WAY_S
        for worker in self._workers if self._gives_way else ():
            worker.give_way(max(0.0, deadline - time.monotonic()))

    def work_state(self) -> WorkState:
        """Return the state of the threads that work on frames."""
        workers = self._workers
        if not workers:
            return WorkState()
        return WorkState(
            busy_s=workers[-1].busy_s,
            dropped=self._dropped + sum(worker.dropped for worker in workers),
            is_owed=any(worker.is_owed for worker in workers),
            has_died=any(worker.has_died for worker in workers),
        )


class Runnable(Protocol):
    """What :func:`run_node` asks of a node, besides being an rclpy node; all but ``start`` by the node's thread."""

    ended: threading.Event
    """An event that is set when the node is to end."""
    health: Health
    """The health that is told of callbacks that fail."""

    def get_logger(self) -> RcutilsLogger:
        """Return the node's logger, as every rclpy node has one."""
        ...

    def start(self) -> None:
        """Begin; may raise what prevents it."""
        ...

    def give_way(self) -> None:
        """Let other threads work after a callback."""
        ...

    def close(self) -> None:
        """Finish what is being worked on; may raise what ended the node."""
        ...


def run_node(
    name: str,
    make: Callable[[], Runnable],
    arguments: list[str] | None = None,
    set_up: Callable[[], object] = set_up_middleware,
) -> int:
    """Run a node until it is interrupted or ends; the arguments are those of :func:`run_nodes`.

    Returns:
        the exit code: 0, or 2 where the node could not do its work, for which one line of the log gives the reason, or
        1 where a bug ended it.
    """
    return run_nodes(name, lambda: [make()], arguments, set_up)


def run_nodes(
    name: str,
    make: Callable[[], Sequence[Runnable]],
    arguments: list[str] | None = None,
    set_up: Callable[[], object] = set_up_middleware,
) -> int:
    """Run nodes in one process until it is interrupted or one of them ends.

    Returns what :func:`run_node` returns.

    Args:
        name: the name of the process in its log.
        make: makes the nodes.
        arguments: the command line for rclpy; None: that of the process.
        set_up: sets up the middleware, once there is room in shared memory.
    """
    freed = remove_abandoned_segments()
    give_up_unfinished_ports()  # or rclpy might wait for one for ever
    set_up()
    end_quietly_on_signals(rclpy.try_shutdown)
    said_by = name
    try:
        # rclpy's own handlers would invalidate the publishers before the frame at hand has its result
        rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
        log_to_ros(name)
        if freed:
            said = f"removed {freed / 1e6:.0f} MB of shared memory that processes which were killed had left"
            rclpy.logging.get_logger(name).info(said)
        with watched_ports(_tell_ports):
            nodes = make()
            if len(nodes) == 1:
                log_to_ros(nodes[0].get_logger().name)  # with its namespace, or /rosout would lack the package's lines
            for node in nodes:
                said_by = node.get_logger().name
                with logging_as(said_by):
                    node.start()
            said_by = name
            code = NodeThreads(nodes).spin()
    except START_ERRORS as error:
        rclpy.logging.get_logger(said_by).fatal(" ".join(str(error).split()))
        code = 2
    finally:
        ignore_signals()
        rclpy.try_shutdown()
    return code


def _tell_ports(names: list[str]) -> None:
    _log.warning("%s in /dev/shm: made by a process that was killed meanwhile; whoever waited for it goes on", names)
