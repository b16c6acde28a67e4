# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Turns failures of a working node into a reason to report, so that they end neither a thread nor the node."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cacheinf_ros.errors import CacheinfError, shortened

THROTTLE = {"throttle_s": 5.0}
"""The ``extra`` of a throttled log record.

A record that differs from an earlier one in its numbers only is logged so many seconds later at the earliest, whatever
the system's clock or ``/clock`` does meanwhile; rclpy's own ``throttle_duration_sec`` follows the system's clock.
"""
RARELY = {"throttle_s": 60.0}
"""Likewise, for what may go on for hours."""

_log = logging.getLogger(__name__)


class Told(CacheinfError):
    """The reason of a failure that was already logged where it happened."""


@dataclass(slots=True)
class Failure:
    """The outcome of a guarded block; true where the block failed.

    Attributes:
        reason: the text for results and diagnostics, of at most ``MOST_CHARACTERS``; empty: the block succeeded.
    """

    reason: str = ""

    def __bool__(self) -> bool:
        return bool(self.reason)


@contextmanager
def guarded(what: str) -> Iterator[Failure]:
    """Run a block; where it raises, continue after it with the reason.

    Errors that the user can do something about are logged in one line; anything else is a bug and is logged with its
    traceback.

    Args:
        what: names the block in the log, such as "frame 12".

    Yields:
        the failure, which is false until the block has failed; look at it after the block.
    """
    failure = Failure()
    try:
        yield failure
    except CacheinfError as error:
        failure.reason = shortened(str(error)) or type(error).__name__
        if not isinstance(error, Told):
            _log.error("%s: %s", shortened(what), failure.reason, extra=THROTTLE)
    except Exception as error:
        failure.reason = shortened(f"internal error, see the node's log: {type(error).__name__}: {error}")
        _log.exception("%s: internal error", shortened(what), extra=THROTTLE)
