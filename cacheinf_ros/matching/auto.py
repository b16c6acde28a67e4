# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Which motion to look for: by the time that reusing is expected to save, minus what finding it costs.

A matcher that is changed for another needs some frames: what it compares with was put together under other motions. So
a change is a trial of a few frames, and goes on if it does better than what was left. Until they are tried, the
others are believed to do as well as they typically do; how badly one did is forgotten in the course of time, but not
while the camera is seen to move in a way that it cannot follow. Where it is seen to be at rest, nothing is tried.
"""

from __future__ import annotations

import time
from collections.abc import Set
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.geometry import Drift
from cacheinf_ros.matching.computed_share import computed_share
from cacheinf_ros.matching.config import MatcherName, MatchingConfig
from cacheinf_ros.matching.diamond import DiamondOptimised
from cacheinf_ros.matching.homography import HARDLY, Homography, largest_move
from cacheinf_ros.matching.identity import Identity
from cacheinf_ros.matching.keyframe import Keyframe

Image = NDArray[np.uint8]

NEW_MATCHER = "change of matcher"

_ALIKE = 0.02  # of the reuse ratio
_TRIAL = 6  # frames until a matcher is judged
_MEMORY = 0.5  # of what was seen so far, in each frame
_FORGOTTEN = 120  # frames after which a matcher that did badly is believed to do as usual
_MARGIN = 0.05  # of a dense frame by which another must be expected to be better
_DENSE_MS = 100.0  # where nobody knows
_LEARNING = 0.1  # weight of the newest frame in what is learned from computing
_OVERHEAD = 0.1  # of a dense frame: what the cheapest frames take
_MOST_LOADED = 10.0
_LEAST_SHARE = 1e-2
_LOST = 0.9  # of a frame computed: hardly anything is saved
_DOUBT = 12  # frames for which what cannot be told is not taken for motion
_BETTER = 0.75  # of the share that was computed then: it has passed
_TYPICAL_PIXELS = 480 * 640
_TYPICAL = {  # share that is computed, milliseconds for so many pixels
    MatcherName.IDENTITY: (0.15, 0.5),
    MatcherName.DIAMOND_OPTIMISED: (0.25, 3.0),
    MatcherName.HOMOGRAPHY: (0.25, 4.5),
}
_EVERY = frozenset(_TYPICAL)


@dataclass(slots=True)
class _Record:
    """What a matcher has shown the last time it was in use; smoothed.

    Attributes:
        share: of a frame that is computed.
        milliseconds: that matching takes.
        frames: for which it has been in use.
        idle: frames since it was left.
    """

    share: float
    milliseconds: float
    frames: int = 0
    idle: int = _FORGOTTEN


@dataclass(frozen=True, slots=True)
class Choice:
    """How a frame was matched.

    Attributes:
        matcher: that was chosen.
        expected: share of the frame that is expected to be computed, before what was learned.
    """

    matcher: MatcherName
    expected: float


class Auto:
    """Stays with a matcher as long as no other is expected to save more.

    Attributes:
        last: the matcher in use.
        choice: how the last frame was matched; None where nothing was.
    """

    def __init__(self, config: MatchingConfig) -> None:
        self.last: MatcherName = MatcherName.IDENTITY
        self._size = 1.0  # of frames, in what is typical
        self._records = {name: _Record(*self._typical(name)) for name in _TYPICAL}
        self._starts_anew = False
        self._doubted: _Record | None = None  # identity's, when it could not be told whether the camera moves
        self._ratios = dict.fromkeys(_TYPICAL, 1.0)  # by matcher: share really computed / share expected
        self.choice: Choice | None = None
        self._load = 1.0  # how many times longer computing takes than dense_ms promises: other processes, small shares
        self._followed: Set[MatcherName] = _EVERY  # which matchers the camera's last movement suits
        self._shift, self._reuse = Motion.none(), 1.0  # that diamond search found last
        self.reconfigure(config)

    def reconfigure(self, config: MatchingConfig) -> None:
        """Go on with another configuration and what was learned so far."""
        self.config = config
        self._dense_ms = config.dense_ms or _DENSE_MS
        self._identity = Identity(config)
        self._diamond = DiamondOptimised(config)
        self._homography = Homography(config)

    @property
    def name(self) -> str:
        """As :attr:`Matcher.name`."""
        return MatcherName.AUTO.value

    def match(self, reference: Image, frame: Image) -> CacheMap:
        """As :meth:`Matcher.match`."""
        self._starts_anew = False  # a pair's reference is a picture: no matcher has put it together
        return self.match_keyframe(Keyframe(reference, is_kept=False), frame)

    def match_keyframe(self, keyframe: Keyframe, frame: Image) -> CacheMap:
        """As :meth:`.KeyframeMatcher.match_keyframe`."""
        self._see_size(frame.shape[0] * frame.shape[1] / _TYPICAL_PIXELS)
        if self._starts_anew:
            self._starts_anew, self.choice = False, None
            return CacheMap.nothing((frame.shape[0], frame.shape[1]), self.config.block_size, NEW_MATCHER)
        started = time.perf_counter_ns()
        found = self._found(keyframe, frame)
        if found.is_empty and self.last is not MatcherName.IDENTITY:
            found = self._at_rest(keyframe, frame, found)
        expected = computed_share(found)
        self.choice = Choice(self.last, expected)
        share = min(1.0, self._ratios[self.last] * expected)
        self._note(share, (time.perf_counter_ns() - started) / 1e6)
        is_lost = share > _LOST
        is_judged = is_lost or self._records[self.last].frames >= _TRIAL or self._shown(self.last) <= 0
        if is_judged and self._choose(keyframe, frame) and is_lost:  # a dense frame would cost more than looking again
            return self.match_keyframe(keyframe, frame)
        return found

    def learn(self, choice: Choice, share: float, computing_ms: float) -> None:
        """Take note of what a frame really cost; where nobody tells, it is guessed.

        Args:
            choice: how it was matched: in a pipeline later frames may have been matched since.
            share: that was computed, 0 to 1.
            computing_ms: what that took.
        """
        ratio = max(share, _LEAST_SHARE) / max(choice.expected, _LEAST_SHARE)
        self._ratios[choice.matcher] *= (ratio / self._ratios[choice.matcher]) ** _LEARNING
        load = computing_ms / ((_OVERHEAD + (1 - _OVERHEAD) * share) * self._dense_ms)
        self._load *= (min(max(load, 1 / _MOST_LOADED), _MOST_LOADED) / self._load) ** _LEARNING

    def _found(self, keyframe: Keyframe, frame: Image) -> CacheMap:
        self._followed = _EVERY
        if self.last is MatcherName.HOMOGRAPHY:
            found = self._homography.match_keyframe(keyframe, frame)
            if not found.reason:
                self._followed = _able_to_follow(keyframe.motion.inverse().then(found.motion), found.image_size)
            return found
        if self.last is MatcherName.IDENTITY:
            return self._in_place(keyframe, frame)
        keyframe.settle()
        return self._by_diamond(keyframe.image, frame)

    def _in_place(self, keyframe: Keyframe, frame: Image) -> CacheMap:
        if not keyframe.motion.is_none:
            return self._homography.compare(keyframe.image, frame, keyframe.motion)  # the camera stands still again
        return self._identity.match(keyframe.image, frame)

    def _at_rest(self, keyframe: Keyframe, frame: Image, nothing: CacheMap) -> CacheMap:
        """Where no motion was found there may be none, in a picture without texture: to look costs next to nothing."""
        found = self._in_place(keyframe, frame)
        if found.is_empty:
            return nothing
        self.last = MatcherName.IDENTITY
        self._records[self.last].frames = 0
        return found

    def _by_diamond(self, reference: Image, frame: Image) -> CacheMap:
        """First by the shift of the frame before: where the camera goes on as it did, nothing needs to be searched."""
        again = self._identity.at(reference, frame, self._shift)
        if again.reuse_ratio >= self._reuse - _ALIKE:
            self._reuse = max(self._reuse, again.reuse_ratio)
            return again
        searched = self._diamond.match(reference, frame)
        found = searched if searched.reuse_ratio > again.reuse_ratio else again
        self._shift, self._reuse = found.motion, found.reuse_ratio
        return found

    def _note(self, share: float, milliseconds: float) -> None:
        for name, record in self._records.items():
            record.idle = 0 if name is self.last else record.idle + (name in self._followed)
        record = self._records[self.last]
        # what is left of the matcher before counts less and less
        keep = _MEMORY if record.frames else 0.0
        record.share = keep * record.share + (1 - keep) * share
        record.milliseconds = keep * record.milliseconds + (1 - keep) * milliseconds
        record.frames += 1

    def _choose(self, keyframe: Keyframe, frame: Image) -> bool:
        """Change to the matcher that is expected to save most, if that is another one by far; whether it is."""
        if self._doubted is not None and self._records[self.last].share < _BETTER * self._doubted.share:
            self._doubted = None
        margin = _MARGIN * self._load * self._dense_ms
        if self._saved(0.0, 0.0) <= self._shown(self.last) + margin:
            return False  # nothing could save so much more
        best = max((name for name in self._records if name is not self.last), key=self._expected)
        if self._expected(best) <= self._shown(self.last) + margin:
            return False
        if self.last is MatcherName.IDENTITY:
            able = self._able(keyframe, frame)
            self._rule_out(_EVERY - able)
            best = max(able, key=self._expected, default=self.last)
            if self._expected(best) <= self._shown(self.last) + margin:
                return False
        self._doubted = None
        self.last = best
        self._records[best].frames = 0
        # what others put together is off by a pixel here and there, more than a homography explains
        self._starts_anew = best is MatcherName.HOMOGRAPHY
        return True

    def _able(self, keyframe: Keyframe, frame: Image) -> Set[MatcherName]:
        """The matchers that may follow the camera where it has left its place; none where it has not.

        Where that cannot be seen it may be a codec's key frame, a flash, a cut, or an object that is all that has any
        texture. Only what goes on is taken for motion.
        """
        motion = self._homography.motion_of_most(keyframe, frame)
        if motion is not None:
            self._doubted = None
            able = _able_to_follow(motion, (frame.shape[0], frame.shape[1]))
            return frozenset() if MatcherName.IDENTITY in able else able
        now = self._records[MatcherName.IDENTITY]
        self._doubted = self._doubted or replace(now)
        return _EVERY if now.frames - self._doubted.frames >= _DOUBT else frozenset()

    def _rule_out(self, names: Set[MatcherName]) -> None:
        """As far as is known these would not find more to reuse."""
        share = self._records[self.last].share
        for name in names - {self.last}:
            record = self._records[name]
            record.share, record.idle = max(record.share, share), 0

    def _expected(self, name: MatcherName) -> float:
        shown, typical = self._shown(name), self._saved(*self._typical(name))
        forgotten = min(1.0, self._records[name].idle / _FORGOTTEN)
        return shown + forgotten * max(0.0, typical - shown)

    def _see_size(self, size: float) -> None:
        """Matching takes longer where there is more to match: what was learned at another size is void."""
        if size != self._size:
            self._size, self._doubted = size, None
            self._records = {name: _Record(*self._typical(name)) for name in _TYPICAL}

    def _typical(self, name: MatcherName) -> tuple[float, float]:
        share, milliseconds = _TYPICAL[name]
        return share, self._size * milliseconds

    def _shown(self, name: MatcherName) -> float:
        """Milliseconds that a matcher saved the last time, at the speed of computing now."""
        return self._saved(self._records[name].share, self._records[name].milliseconds)

    def _saved(self, share: float, milliseconds: float) -> float:
        return (1 - share) * self._load * self._dense_ms - milliseconds


def _able_to_follow(motion: Motion, size: tuple[int, int]) -> set[MatcherName]:
    """The matchers that can follow a movement from one frame of (height, width) to the next."""
    dx, dy = Drift.of(motion, size).shift
    followed = {MatcherName.HOMOGRAPHY}
    for name, shift in (MatcherName.IDENTITY, (0, 0)), (MatcherName.DIAMOND_OPTIMISED, (round(dx), round(dy))):
        rest = motion.then(Motion.translation(-shift[0], -shift[1]))
        if largest_move(rest, size) <= HARDLY:
            followed.add(name)
    return followed
