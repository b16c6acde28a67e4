# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the parts of the package log reaches the node's own log, and with it the terminal and /rosout."""

from __future__ import annotations

import logging
import re
import time

import rclpy.logging
from rclpy.impl.rcutils_logger import RcutilsLogger

_PACKAGE = "cacheinf_ros"
_MOST_KEPT = 256  # texts that are not to be said again too soon
_NUMBERS = re.compile(r"\d+")


class _RosHandler(logging.Handler):
    """Passes records on to a ROS logger, which decides by its own level; those that ask for it not too often."""

    def __init__(self, logger: RcutilsLogger) -> None:
        super().__init__()
        self._logger = logger
        self._next_s: dict[str, float] = {}  # by what is not to be said sooner

    def filter(self, record: logging.LogRecord) -> bool:
        throttle_s = getattr(record, "throttle_s", 0.0)
        if throttle_s:
            key, now_s = _gist(record), time.monotonic()
            if now_s < self._next_s.get(key, 0.0):
                return False
            if len(self._next_s) >= _MOST_KEPT:
                self._next_s = {key: next_s for key, next_s in self._next_s.items() if next_s > now_s}
            if len(self._next_s) >= _MOST_KEPT:
                return False
            self._next_s[key] = now_s + throttle_s
        return True

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


def _gist(record: logging.LogRecord) -> str:
    """What records that say the same thing share: all but numbers, such as the frame's; of bugs their kind."""
    error = record.exc_info[0] if record.exc_info else None
    said = error.__name__ if error is not None else record.getMessage()
    return _NUMBERS.sub("#", f"{record.pathname} {record.lineno} {said}")


def log_to_ros(name: str) -> None:
    """Send what the package logs to the node of this name; call it after ``rclpy.init``."""
    logger = logging.getLogger(_PACKAGE)
    logger.handlers = [_RosHandler(rclpy.logging.get_logger(name))]
    logger.setLevel(logging.INFO)
    logger.propagate = False
