# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A node that observes others from outside, in a thread and a ROS context of its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any, Self

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.executors import ExternalShutdownException, ShutdownException, SingleThreadedExecutor
from rclpy.node import Node

from cacheinf_ros.fast_dds import set_up_middleware
from cacheinf_ros.nodes.topics import profile
from cacheinf_ros.pipeline import guarded

_JOIN_S = 5.0
_DIAGNOSTICS_DEPTH = 1000


class SpinningNode:
    """Spins from its creation until it is closed; a process may have any number of them, each in its own domain.

    Use it as a context manager, or call :meth:`close`.

    Attributes:
        node: the rclpy node, for publishers, subscriptions and clients.
    """

    def __init__(self, name: str, domain: int, failed: Callable[[Exception], None] | None = None) -> None:
        """Start; ``failed`` takes the exception of a callback, which ends the thread; None: it is printed."""
        set_up_middleware()  # with default sockets large results are lost and sent again, which takes long
        self._context = rclpy.Context()
        rclpy.init(context=self._context, domain_id=domain)
        self.node: Node = rclpy.create_node(name, context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._failed = failed
        self._thread = threading.Thread(target=self._spin, name=name, daemon=True)
        self._thread.start()

    def call(self, act: Callable[[], None]) -> None:
        """Have ``act`` called soon by the spinning thread, as destroying an entity elsewhere could end that thread."""
        self._executor.create_task(act)

    def close(self) -> None:
        """Stop spinning and leave the domain."""
        self._executor.shutdown()
        self._thread.join(_JOIN_S)
        rclpy.try_shutdown(context=self._context)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _spin(self) -> None:
        try:
            with contextlib.suppress(ExternalShutdownException, ShutdownException):
                self._executor.spin()
        except Exception as error:
            if self._failed is None:
                raise
            self._failed(error)


def surviving(what: str, receive: Callable[[Any], None]) -> Callable[[Any], None]:
    """Wrap a callback of a subscription whose messages anybody may send: one that cannot be read is logged and skipped.

    Args:
        what: what the message is, for the log.
        receive: the callback.
    """

    def received(message: Any) -> None:
        with guarded(what):
            receive(message)

    return received


class ListeningNode(SpinningNode):
    """Keeps the latest diagnostics of the nodes in its domain.

    Attributes:
        diagnostics: the latest status of each node, by its name.
    """

    def __init__(self, name: str, domain: int) -> None:
        super().__init__(name, domain)
        self.diagnostics: dict[str, DiagnosticStatus] = {}
        qos = profile(_DIAGNOSTICS_DEPTH)
        self.node.create_subscription(DiagnosticArray, "/diagnostics", self._keep_diagnostics, qos)

    def said(self, node: str) -> dict[str, str]:
        """Return all values of a node's latest diagnostics."""
        status = self.diagnostics.get(node)
        return {value.key: value.value for value in status.values} if status else {}

    def _keep_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            self.diagnostics[status.name] = status
