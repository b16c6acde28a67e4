# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Forwards the package's log records to the node's own log, and with it to the terminal and /rosout."""

from __future__ import annotations

import logging
import re
import time

import rclpy.logging
from rclpy.impl.rcutils_logger import RcutilsLogger

from cacheinf_ros.errors import shortened

_PACKAGE = "cacheinf_ros"
_MOST_KEPT = 32  # texts of one call that are throttled; the last one says that there are more
_MOST_CHARACTERS = 8000  # of a record: enough for some frames of a traceback
_MORE = "too many different texts at once: more like this one is left out for a while"
_NUMBERS = re.compile(r"\d+")


class _RosHandler(logging.Handler):
    """Passes records on to a ROS logger, which filters by level, and throttles those that ask for it."""

    def __init__(self, logger: RcutilsLogger) -> None:
        super().__init__()
        self._logger = logger
        self._throttles: dict[tuple[str, int], _Throttle] = {}  # by the file and line that logs; there are some dozens

    def emit(self, record: logging.LogRecord) -> None:
        text = self._text(record)
        if text is None:
            return
        # one line for each level: rclpy remembers the severity of the calling line, and refuses another one from there
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

    def _text(self, record: logging.LogRecord) -> str | None:
        """Return the text to log for a record, or None where it is suppressed."""
        throttle_s = getattr(record, "throttle_s", 0.0)
        if throttle_s:
            throttle = self._throttles.setdefault((record.pathname, record.lineno), _Throttle())
            gist = throttle.passed(_gist(record), throttle_s)
            if gist is None:
                return None
            if gist == _MORE:
                return f"{gist}: {shortened(record.getMessage())}"
        return shortened(self.format(record), _MOST_CHARACTERS)


class _Throttle:
    """Decides which texts of one logging call are logged: each at most once in a while, and a limited number."""

    def __init__(self) -> None:
        self._next_s: dict[str, float] = {}  # by text: the time before which it is not logged again

    def passed(self, gist: str, throttle_s: float) -> str | None:
        """Return the text to log now, or :data:`_MORE` where too many differ, or None to log nothing."""
        now_s = time.monotonic()
        if now_s < self._next_s.get(gist, 0.0):
            return None
        if len(self._next_s) >= _MOST_KEPT - 1:
            self._next_s = {text: next_s for text, next_s in self._next_s.items() if next_s > now_s}
        if len(self._next_s) >= _MOST_KEPT - 1:
            gist = _MORE
        if gist in self._next_s:
            return None
        self._next_s[gist] = now_s + throttle_s
        return gist


def _gist(record: logging.LogRecord) -> str:
    """Return what similar records of one call share: their text without numbers, or the type of a bug."""
    error = record.exc_info[0] if record.exc_info else None
    said = error.__name__ if error is not None else record.getMessage()
    return _NUMBERS.sub("#", shortened(said))


def log_to_ros(name: str) -> None:
    """Send what the package logs to the logger of this name; call it after ``rclpy.init``."""
    logger = logging.getLogger(_PACKAGE)
    logger.handlers = [_RosHandler(rclpy.logging.get_logger(name))]
    logger.setLevel(logging.INFO)
    logger.propagate = False
