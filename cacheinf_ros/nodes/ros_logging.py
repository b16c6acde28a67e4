# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Forwards the package's log records to the log of the node that they are about, and so to terminal and /rosout."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable

import rclpy.logging
from rclpy.impl.rcutils_logger import RcutilsLogger

from cacheinf_ros.errors import shortened
from cacheinf_ros.pipeline import log_owner

_PACKAGE = "cacheinf_ros"
_MOST_KEPT = 32  # texts of one call that are throttled; the last one says that there are more
_MOST_CHARACTERS = 8000  # of a record: enough for some frames of a traceback
_MORE = "too many different texts at once: more like this one is left out for a while"
_NUMBERS = re.compile(r"\d+")


class _RosHandler(logging.Handler):
    """Passes records on to the ROS logger of their node, which filters by level, and throttles those that ask for it.

    What one node says holds back nothing that another one says.
    """

    def __init__(
        self, logger: RcutilsLogger, logger_of: Callable[[str], RcutilsLogger] = rclpy.logging.get_logger
    ) -> None:
        """Prepare.

        Args:
            logger: takes what is about no node in particular.
            logger_of: makes the logger of a node from its name.
        """
        super().__init__()
        self._logger_of = logger_of
        self._loggers = {"": logger}  # by the node that a thread works for
        self._throttles: dict[tuple[str, str, int], _Throttle] = {}  # by node, and by the file and line that logs

    def emit(self, record: logging.LogRecord) -> None:
        owner = log_owner()
        text = self._text(owner, record)
        if text is None:
            return
        logger = self._loggers.get(owner)
        if logger is None:
            logger = self._loggers[owner] = self._logger_of(owner)
        # one line for each level: rclpy remembers the severity of the calling line, and refuses another one from there
        if record.levelno >= logging.CRITICAL:
            logger.fatal(text)
        elif record.levelno >= logging.ERROR:
            logger.error(text)
        elif record.levelno >= logging.WARNING:
            logger.warning(text)
        elif record.levelno >= logging.INFO:
            logger.info(text)
        else:
            logger.debug(text)

    def _text(self, owner: str, record: logging.LogRecord) -> str | None:
        """Return the text to log for a record about a node, or None where it is suppressed."""
        throttle_s = getattr(record, "throttle_s", 0.0)
        if throttle_s:
            throttle = self._throttles.setdefault((owner, record.pathname, record.lineno), _Throttle())
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
        if now_s < self._next_s.get(gist, 0.0):
            return None
        self._next_s[gist] = now_s + throttle_s
        return gist


def _gist(record: logging.LogRecord) -> str:
    """Return what similar records of one call share: their text without numbers, or the type of a bug."""
    error = record.exc_info[0] if record.exc_info else None
    said = error.__name__ if error is not None else record.getMessage()
    return _NUMBERS.sub("#", shortened(said))


def log_to_ros(name: str) -> None:
    """Send what the package logs to the loggers of its nodes, and what is about none of them to that of this name.

    Must be called after ``rclpy.init``.
    """
    logger = logging.getLogger(_PACKAGE)
    logger.handlers = [_RosHandler(rclpy.logging.get_logger(name))]
    logger.setLevel(logging.INFO)
    logger.propagate = False
