# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Choose the matcher, by the time that reuse is expected to save, minus what finding the motion costs.

A matcher that takes over from another needs some frames: the reference was put together under other motions. So a
change is a trial of a few frames, and lasts if the new matcher does better than the one before. How badly a matcher did
is not forgotten while the camera visibly moves in a way that the matcher cannot follow. While the camera is visibly at
rest, nothing is tried.
"""

from __future__ import annotations

import time
from collections.abc import Set
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.geometry import Drift
from cacheinf_ros.matching.block_matching import DiamondOptimised, Identity
from cacheinf_ros.matching.computed_share import computed_share
from cacheinf_ros.matching.homography import HARDLY, Homography, largest_move
from cacheinf_ros.matching.keyframe import Keyframe
from cacheinf_ros.matching.matching_config import MatcherName, MatchingConfig
from cacheinf_ros.matching.savings import CANDIDATES, Choice, Record, Savings

Image = NDArray[np.uint8]

NEW_MATCHER = "change of matcher"

_ALIKE = 0.02  # of the reuse ratio
_TRIAL = 6  # frames until a matcher is judged
_LOST = 0.9  # share of a frame that is computed: hardly anything is saved
_DOUBT = 12  # frames for which something unclear is not taken for motion
_BETTER = 0.75  # of the share that was computed when in doubt: below it, the disturbance has passed


class Auto:
    """Stays with a matcher as long as no other is expected to save more.

    Attributes:
        last: the matcher in use.
        choice: how the last frame was matched; None where nothing was.
    """

    def __init__(self, config: MatchingConfig) -> None:
        self.last: MatcherName = MatcherName.IDENTITY
        self.choice: Choice | None = None
        self._savings = Savings()
        self._starts_anew = False
        self._doubted: Record | None = None  # identity's, when it became unclear whether the camera moves
        self._followed: Set[MatcherName] = CANDIDATES  # which matchers the camera's last movement suits
        self._shift, self._reuse = Motion.none(), 1.0  # what diamond search found last
        self.reconfigure(config)

    def reconfigure(self, config: MatchingConfig) -> None:
        """Switch to another configuration, and keep what was learned so far."""
        self.config = config
        self._savings.expect_dense_ms(config.dense_ms)
        self._identity = Identity(config)
        self._diamond = DiamondOptimised(config)
        self._homography = Homography(config)

    @property
    def name(self) -> str:
        """The name in reports, see :attr:`Matcher.name`."""
        return MatcherName.AUTO.value

    def match(self, reference: Image, frame: Image) -> CacheMap:
        """Implement :meth:`Matcher.match`."""
        self._starts_anew = False  # the reference of a single pair is a plain image: no matcher has put it together
        return self.match_keyframe(Keyframe(reference, is_kept=False), frame)

    def match_keyframe(self, keyframe: Keyframe, frame: Image) -> CacheMap:
        """Implement :meth:`.KeyframeMatcher.match_keyframe`."""
        if self._savings.see_size(frame.shape[0], frame.shape[1]):
            self._doubted = None
        if self._starts_anew:
            self._starts_anew, self.choice = False, None
            return CacheMap.nothing((frame.shape[0], frame.shape[1]), self.config.block_size, NEW_MATCHER)
        started = time.perf_counter_ns()
        found = self._found(keyframe, frame)
        if found.is_empty and self.last is not MatcherName.IDENTITY:
            found = self._at_rest(keyframe, frame, found)
        self.choice = Choice(self.last, computed_share(found))
        share = self._savings.share(self.choice)
        self._savings.note(self.last, share, (time.perf_counter_ns() - started) / 1e6, self._followed)
        is_lost = share > _LOST
        is_judged = is_lost or self._savings.record(self.last).frames >= _TRIAL or self._savings.shown(self.last) <= 0
        if is_judged and self._choose(keyframe, frame) and is_lost:  # a dense frame would cost more than looking again
            return self.match_keyframe(keyframe, frame)
        return found

    def learn(self, choice: Choice, share: float, computing_ms: float) -> None:
        """Take note of what a frame really cost; without such calls it is estimated.

        Args:
            choice: how the frame was matched: in a pipeline later frames may have been matched since.
            share: share of the frame that was computed, 0 to 1.
            computing_ms: time that this took.
        """
        self._savings.learn(choice, share, computing_ms)

    def _found(self, keyframe: Keyframe, frame: Image) -> CacheMap:
        self._followed = CANDIDATES
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
        """Compare in place where no motion was found, as in an image without texture: this costs next to nothing.

        Returns ``nothing``, the map without motion, where nothing is reusable in place either.
        """
        found = self._in_place(keyframe, frame)
        if found.is_empty:
            return nothing
        self.last = MatcherName.IDENTITY
        self._savings.start(self.last)
        return found

    def _by_diamond(self, reference: Image, frame: Image) -> CacheMap:
        """Try the shift of the frame before first: where the camera goes on as it did, nothing needs to be searched."""
        again = self._identity.at(reference, frame, self._shift)
        if again.reuse_ratio >= self._reuse - _ALIKE:
            self._reuse = max(self._reuse, again.reuse_ratio)
            return again
        searched = self._diamond.match(reference, frame)
        found = searched if searched.reuse_ratio > again.reuse_ratio else again
        self._shift, self._reuse = found.motion, found.reuse_ratio
        return found

    def _choose(self, keyframe: Keyframe, frame: Image) -> bool:
        """Change to the matcher that is expected to save most, if that is another one by far; tell whether it is."""
        savings, used = self._savings, self.last
        if self._doubted is not None and savings.record(used).share < _BETTER * self._doubted.share:
            self._doubted = None
        if not savings.may_be_beaten(used):
            return False
        best = savings.best_other(used)
        if not savings.is_better(best, used):
            return False
        if used is MatcherName.IDENTITY:
            able = self._able(keyframe, frame)
            savings.rule_out(CANDIDATES - able, used)
            best = max(able, key=savings.expected, default=used)
            if not savings.is_better(best, used):
                return False
        self._doubted = None
        self.last = best
        savings.start(best)
        # a reference that others put together is off by a pixel here and there, more than a homography explains
        self._starts_anew = best is MatcherName.HOMOGRAPHY
        return True

    def _able(self, keyframe: Keyframe, frame: Image) -> Set[MatcherName]:
        """Return the matchers that may follow the camera where it has left its place; none where it has not.

        An unclear change may be a codec's key frame, a flash, a cut, or an object that alone has any texture. Only one
        that persists is taken for motion.
        """
        motion = self._homography.motion_of_most(keyframe, frame)
        if motion is not None:
            self._doubted = None
            able = _able_to_follow(motion, (frame.shape[0], frame.shape[1]))
            return frozenset() if MatcherName.IDENTITY in able else able
        now = self._savings.record(MatcherName.IDENTITY)
        self._doubted = self._doubted or replace(now)
        return CANDIDATES if now.frames - self._doubted.frames >= _DOUBT else frozenset()


def _able_to_follow(motion: Motion, size: tuple[int, int]) -> set[MatcherName]:
    """Return the matchers that can follow a movement from one frame of (height, width) to the next."""
    dx, dy = Drift.of(motion, size).shift
    followed = {MatcherName.HOMOGRAPHY}
    for name, shift in (MatcherName.IDENTITY, (0, 0)), (MatcherName.DIAMOND_OPTIMISED, (round(dx), round(dy))):
        rest = motion.then(Motion.translation(-shift[0], -shift[1]))
        if largest_move(rest, size) <= HARDLY:
            followed.add(name)
    return followed
