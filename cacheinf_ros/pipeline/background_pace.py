# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The pace of work beside frames where a quota of processor time is shared with them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from cacheinf_ros.processor_quota import processor_quota

_SHARE = 0.1  # of the time, where the quota is too small for frames and work beside them
_log = logging.getLogger(__name__)


class BackgroundPace:
    """Has work in the background rest nine tenths of the time where a quota leaves it no processor beside the frames.

    A low priority does not help there: the quota is used up all the same, and then the frames' threads stop, too.
    """

    def __init__(
        self,
        threads: int,
        what: str,
        quota: Callable[[], float] = processor_quota,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Begin the work.

        Args:
            threads: how many threads frames are computed in.
            what: the work, for the log.
            quota: returns the processors' worth of time that there is.
            clock: the time in seconds.
        """
        self._threads = threads
        self._what = what
        self._quota = quota
        self._clock = clock
        self._since = clock()
        self._was_slow = False

    @property
    def is_slow(self) -> bool:
        """Whether the work has had to rest."""
        return self._was_slow

    def rest(self, stopping: threading.Event) -> None:
        """Rest after a piece of work, in proportion to its time, until that is over or ``stopping`` is set."""
        quota = self._quota()
        if quota < self._threads + 1:
            if not self._was_slow:
                self._was_slow = True
                _log.info(
                    "%s rests nine tenths of the time: this container or service may use %g processors, and frames are "
                    "computed in %d threads",
                    self._what, quota, self._threads,
                )  # fmt: skip
            stopping.wait((self._clock() - self._since) * (1 / _SHARE - 1))
        self._since = self._clock()
