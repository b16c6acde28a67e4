# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Sending over a link that may be made artificially slower than it is."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from rclpy._rclpy_pybind11 import RCLError
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.publisher import Publisher

from cacheinf_ros.errors import ConfigError
from cacheinf_ros.install_paths import share_folder
from cacheinf_ros.offload import LimitedLink, Trace, read_trace
from cacheinf_ros.pipeline import THROTTLE
from cacheinf_ros.pipeline.node_configs import LimitConfig

_log = logging.getLogger(__name__)


class Sender:
    """Publishes at once, or as late as the limited link delivers."""

    def __init__(self, node: Node, config: LimitConfig) -> None:
        """Prepare; raises :class:`ConfigError` where the parameter is neither a bandwidth nor a trace."""
        self._logger = node.get_logger()
        self._link: LimitedLink | None = None
        if config.limit_link:
            self._link = LimitedLink(find_trace(config.limit_link))
            self._logger.warning(f"server.limit_link: what is sent is held up as on a link of {config.limit_link!r}")

    def publish(self, publisher: Publisher[Any], message: Any, size: int) -> None:
        """Publish a message of about ``size`` bytes."""

        def deliver() -> None:
            try:
                with suppress(InvalidHandle):  # the publisher is gone
                    publisher.publish(message)
            except RCLError as error:  # the receiver does not keep up: the message is lost, as on any bad link
                _log.warning("a message was not sent: %s", error, extra=THROTTLE)

        if self._link is None:
            deliver()
        else:
            self._link.send(size, deliver)

    def close(self) -> None:
        """End the limited link as soon as what waits there has crossed."""
        if self._link is not None:
            self._link.close()


def find_trace(link: str) -> Trace:
    """Return the trace that ``link`` means: a bandwidth, a CSV file, or the name of a trace in this package.

    Raises:
        ConfigError: ``link`` is none of these.
    """
    try:
        path = share_folder() / "config" / "traces" / f"{link}.csv"
    except ConfigError:
        return read_trace(link)
    return read_trace(str(path) if path.is_file() else link)
