# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The pace of work beside frames where a quota of processor time is shared with them."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable

from cacheinf_ros.processor_quota import processor_quota

_SHARE = 0.1  # of the time, while frames come and the quota is too small for them and work beside them
_IDLE_S = 1.0  # without a frame for so long, none is disturbed
_LOOK_S = 0.25  # between two looks whether frames still come
_log = logging.getLogger(__name__)


class BackgroundPace:
    """Has work in the background rest nine tenths of the time where a quota leaves it no processor beside the frames.

    A low priority does not help there: the quota is used up all the same, and then the frames' threads stop, too. Where
    no frames come, it does not rest. One thread works, another one tells of frames.
    """

    def __init__(
        self,
        threads: int,
        what: str,
        quota: Callable[[], float] = processor_quota,
        clock: Callable[[], float] = time.monotonic,
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
        self._since = clock()  # when the present piece of work began
        self._frame_s = -math.inf  # when the last frame came
        self._has_rested = False

    def frame(self) -> None:
        """Take note that a frame has come."""
        self._frame_s = self._clock()

    def begin(self) -> None:
        """Begin a piece of work after a time that does not count as work."""
        self._since = self._clock()

    def must_rest(self) -> bool:
        """Tell whether a rest is due after the present piece of work."""
        is_due = self._has_frames() and self._quota() < self._threads + 1
        if is_due and not self._has_rested:
            self._has_rested = True
            _log.info(
                "%s rests nine tenths of the time while frames come: this container or service may use %g processors, "
                "and frames are computed in %d threads",
                self._what, self._quota(), self._threads,
            )  # fmt: skip
        return is_due

    def rest(self, stopping: threading.Event) -> None:
        """Rest in proportion to the last piece of work, until ``stopping`` is set or no more frames come."""
        ends_s = self._clock() + (self._clock() - self._since) * (1 / _SHARE - 1)
        while (left_s := ends_s - self._clock()) > 0 and self._has_frames():
            if stopping.wait(min(left_s, _LOOK_S)):
                break
        self.begin()

    def _has_frames(self) -> bool:
        return self._clock() - self._frame_s < _IDLE_S
