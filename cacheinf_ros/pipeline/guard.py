# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What becomes of a failure while a node works: a reason to tell, never the end of a thread or of the node."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cacheinf_ros.errors import CacheinfError, shortened

THROTTLE = {"throttle_s": 5.0}
"""Extra of a log record: the node's log takes one like it, but for numbers, no sooner than so many seconds later."""

_log = logging.getLogger(__name__)


class Told(CacheinfError):
    """The reason of a failure that was logged where it happened."""


@dataclass(slots=True)
class Failure:
    """How a guarded block ended; true where it failed.

    Attributes:
        reason: for results and diagnostics, of at most ``MOST_CHARACTERS``; empty: all went well.
    """

    reason: str = ""

    def __bool__(self) -> bool:
        return bool(self.reason)


@contextmanager
def guarded(what: str) -> Iterator[Failure]:
    """Run a block; where it raises, go on behind it with the reason.

    What the user can do something about is logged in one line, anything else is a bug and is logged with its traceback.

    Args:
        what: names the block in the log, such as "frame 12".

    Yields:
        the failure, to be asked behind the block.
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
