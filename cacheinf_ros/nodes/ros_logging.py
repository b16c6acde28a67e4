# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the parts of the package log reaches the node's own log, and with it the terminal and /rosout."""

from __future__ import annotations

import logging

import rclpy.logging
from rclpy.impl.rcutils_logger import RcutilsLogger

_PACKAGE = "cacheinf_ros"


class _RosHandler(logging.Handler):
    """Passes records on to a ROS logger, which decides by its own level."""

    def __init__(self, logger: RcutilsLogger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        # a line for each: rclpy remembers the severity of the line that calls it, and refuses another one from there
        if record.levelno >= logging.CRITICAL:
            self._logger.fatal(text)
        elif record.levelno >= logging.ERROR:
            self._logger.error(text)
        elif record.levelno >= logging.WARNING:
            self._logger.warning(text)
        elif record.levelno >= logging.INFO:
            self._logger.info(text)
        else:
            self._logger.debug(text)


def log_to_ros(name: str) -> None:
    """Send what the package logs to the node of this name; call it after ``rclpy.init``."""
    logger = logging.getLogger(_PACKAGE)
    logger.handlers = [_RosHandler(rclpy.logging.get_logger(name))]
    logger.setLevel(logging.INFO)
    logger.propagate = False
