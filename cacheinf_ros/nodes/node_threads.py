# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Spins the nodes of a process, each in a thread of its own: what one node's callbacks take delays no other node.

One executor for four cameras delivered frames that came at the same time up to 20 ms late, as it gives way to the work
on each of them, and none at all while a lifecycle transition of one camera loaded its model.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

import rclpy
from rclpy.executors import SingleThreadedExecutor

from cacheinf_ros.nodes.managed_node import START_ERRORS
from cacheinf_ros.pipeline import guarded, logging_as
from cacheinf_ros.quiet_end import call_on_signals, ignore_signals

_MENDABLE, _BUG = 2, 1  # exit codes
_log = logging.getLogger(__name__)
_PATIENCE_S = 0.2  # Python sees a signal only when the executor returns


class NodeThreads:
    """Calls the callbacks of rclpy nodes until a signal comes or one of them ends; then closes and destroys them."""

    def __init__(self, nodes: Sequence[Any]) -> None:
        """Prepare; each node is as :class:`Runnable` says."""
        self._nodes = nodes
        self._is_over = False  # no Event: the signal that sets it may come while this thread sets it, with its lock
        self._failures: list[Exception] = []  # what ended nodes, or closing them

    def spin(self) -> int:
        """Spin until the end; must be called by the main thread, which works for the first node.

        Returns:
            the exit code: 0, or 2 where the user can do something about all that ended a node, or 1 where it was a bug.
            The log of each node says what it was.
        """
        call_on_signals(self._end)
        executors = [SingleThreadedExecutor() for _ in self._nodes]
        first, *others = zip(self._nodes, executors, strict=True)
        threads = [threading.Thread(target=self._work, args=each, name=each[0].get_name()) for each in others]
        for thread in threads:
            thread.start()
        self._work(*first)
        for thread in threads:
            thread.join()
        for executor in executors:
            executor.shutdown()  # before rclpy shuts down: what is left of it cannot be destroyed after that
        for node in self._nodes:
            node.destroy_node()
        if all(isinstance(failure, START_ERRORS) for failure in self._failures):
            return _MENDABLE if self._failures else 0
        return _BUG

    def _end(self) -> None:
        self._is_over = True

    def _work(self, node: Any, executor: SingleThreadedExecutor) -> None:
        """Call the callbacks of one node, and close it at the end."""
        with logging_as(node.get_logger().name):
            try:
                executor.add_node(node)
                while rclpy.ok() and not (self._is_over or node.ended.is_set()):
                    with guarded("a callback") as failure:
                        executor.spin_once(timeout_sec=_PATIENCE_S)
                    if failure:
                        node.health.failed(failure.reason)
                    node.give_way()
            except Exception as error:
                self._failed(error)
            finally:
                self._end()
                self._close(node)

    def _close(self, node: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            ignore_signals()  # a signal may come twice
        try:
            node.close()
        except Exception as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        """Remember what ended the node of this thread, and say it in that node's log."""
        self._failures.append(error)
        if isinstance(error, START_ERRORS):
            _log.critical("%s", " ".join(str(error).split()))
        else:
            _log.critical("the node ends by a bug", exc_info=error)
