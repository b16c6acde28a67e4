# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Estimate what each matcher saves of a frame's time: computing that is spared, minus what matching takes.

The estimate is what the matcher has shown the last time it was in use. Until it is tried, a matcher is believed to do
as well as it typically does; how badly one did is forgotten in the course of time.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from cacheinf_ros.matching.matching_config import MatcherName

_FORGOTTEN = 120  # frames after which a matcher that did badly is believed to do as usual
_MEMORY = 0.5  # weight of what was seen before, in each frame
_MARGIN = 0.05  # of a dense frame's time: another matcher must be expected to save so much more
_DENSE_MS = 100.0  # as long as it is unknown
_LEARNING = 0.1  # weight of the newest frame in what is learned from computing
_OVERHEAD = 0.1  # of a dense frame's time: what the cheapest frames take
_MOST_LOADED = 10.0
_LEAST_SHARE = 1e-2
_TYPICAL_PIXELS = 480 * 640
_TYPICAL = {  # share that is computed, milliseconds for so many pixels
    MatcherName.IDENTITY: (0.15, 0.5),
    MatcherName.DIAMOND_OPTIMISED: (0.25, 3.0),
    MatcherName.HOMOGRAPHY: (0.25, 4.5),
}
CANDIDATES = frozenset(_TYPICAL)
"""The matchers to choose from."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How a frame was matched.

    Attributes:
        matcher: matcher that was chosen.
        expected: share of the frame that is expected to be computed, before correction by what was learned.
    """

    matcher: MatcherName
    expected: float


@dataclass(slots=True)
class Record:
    """What a matcher has shown the last time it was in use, smoothed over frames.

    Attributes:
        share: share of a frame that is computed.
        milliseconds: time that matching takes.
        frames: number of frames for which it has been in use.
        idle: number of frames since it was left that it could have followed.
    """

    share: float
    milliseconds: float
    frames: int = 0
    idle: int = _FORGOTTEN


class Savings:
    """Keeps the records of all matchers, corrected by what computing a frame really took."""

    def __init__(self) -> None:
        self._dense_ms = _DENSE_MS
        self._size = 1.0  # of frames, in what is typical
        self._records = {name: Record(*self._typical(name)) for name in _TYPICAL}
        self._ratios = dict.fromkeys(_TYPICAL, 1.0)  # by matcher: share really computed / share expected
        self._load = 1.0  # how many times longer computing takes than dense_ms promises: other processes, small shares

    def expect_dense_ms(self, dense_ms: float) -> None:
        """Set the time that a frame takes without a cache, in ms; 0: it is unknown."""
        self._dense_ms = dense_ms or _DENSE_MS

    def see_size(self, height: int, width: int) -> bool:
        """Take note of the size of frames; where it changed, forget what was learned and return True.

        At another size there is more or less to match.
        """
        size = height * width / _TYPICAL_PIXELS
        if size == self._size:
            return False
        self._size = size
        self._records = {name: Record(*self._typical(name)) for name in _TYPICAL}
        return True

    def learn(self, choice: Choice, share: float, computing_ms: float) -> None:
        """Take note of what a frame really cost: the share that was computed, 0 to 1, and the time that this took."""
        ratio = max(share, _LEAST_SHARE) / max(choice.expected, _LEAST_SHARE)
        self._ratios[choice.matcher] *= (ratio / self._ratios[choice.matcher]) ** _LEARNING
        load = computing_ms / ((_OVERHEAD + (1 - _OVERHEAD) * share) * self._dense_ms)
        self._load *= (min(max(load, 1 / _MOST_LOADED), _MOST_LOADED) / self._load) ** _LEARNING

    def share(self, choice: Choice) -> float:
        """Return the share of a frame that will be computed, corrected by what was learned."""
        return min(1.0, self._ratios[choice.matcher] * choice.expected)

    def note(self, used: MatcherName, share: float, milliseconds: float, followed: Set[MatcherName]) -> None:
        """Take note of a frame: the matcher in use, its cost, and the matchers that could have followed the camera."""
        for name, record in self._records.items():
            record.idle = 0 if name is used else record.idle + (name in followed)
        record = self._records[used]
        # what is left of the matcher before counts less and less
        keep = _MEMORY if record.frames else 0.0
        record.share = keep * record.share + (1 - keep) * share
        record.milliseconds = keep * record.milliseconds + (1 - keep) * milliseconds
        record.frames += 1

    def start(self, name: MatcherName) -> None:
        """Begin a trial of a matcher."""
        self._records[name].frames = 0

    def rule_out(self, names: Set[MatcherName], instead: MatcherName) -> None:
        """Record that these matchers would, as far as is known, not find more to reuse than the one in use."""
        share = self._records[instead].share
        for name in names - {instead}:
            record = self._records[name]
            record.share, record.idle = max(record.share, share), 0

    def record(self, name: MatcherName) -> Record:
        """Return the record of a matcher."""
        return self._records[name]

    def shown(self, name: MatcherName) -> float:
        """Return the milliseconds that a matcher saved the last time, at the present speed of computing."""
        return self._saved(self._records[name].share, self._records[name].milliseconds)

    def expected(self, name: MatcherName) -> float:
        """Return the milliseconds that a matcher is expected to save."""
        shown, typical = self.shown(name), self._saved(*self._typical(name))
        forgotten = min(1.0, self._records[name].idle / _FORGOTTEN)
        return shown + forgotten * max(0.0, typical - shown)

    def best_other(self, used: MatcherName) -> MatcherName:
        """Return the matcher beside the one in use that is expected to save most."""
        return max((name for name in self._records if name is not used), key=self.expected)

    def is_better(self, other: MatcherName, used: MatcherName) -> bool:
        """Tell whether another matcher is expected to save more by far than the one in use."""
        return self.expected(other) > self.shown(used) + self._margin

    def may_be_beaten(self, used: MatcherName) -> bool:
        """Tell whether any matcher could be better, if it saved all computing and took no time."""
        return self._saved(0.0, 0.0) > self.shown(used) + self._margin

    @property
    def _margin(self) -> float:
        return _MARGIN * self._load * self._dense_ms

    def _typical(self, name: MatcherName) -> tuple[float, float]:
        share, milliseconds = _TYPICAL[name]
        return share, self._size * milliseconds

    def _saved(self, share: float, milliseconds: float) -> float:
        return (1 - share) * self._load * self._dense_ms - milliseconds
