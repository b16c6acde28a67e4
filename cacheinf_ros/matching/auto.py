"""Which motion to use on this frame: by the time it is expected to save, minus what finding it costs."""

from __future__ import annotations

import time
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.matching.anchor import Anchor
from cacheinf_ros.matching.config import MatcherName, MatchingConfig
from cacheinf_ros.matching.diamond_optimised import DiamondOptimised
from cacheinf_ros.matching.homography import Homography, compare
from cacheinf_ros.matching.identity import Identity
from cacheinf_ros.matching.matcher import Matcher

Image = NDArray[np.uint8]

_MEMORY = 0.7  # of what a matcher has shown so far
_DROP = 0.1  # of the reuse ratio, after which others are asked too
_CURIOUS_EVERY = 30  # frames after which another matcher gets a chance, if it could pay
_EVIDENCE_SIDE = 128  # pixels of the pictures that the cheap evidence looks at
_STILL = 0.3  # pixels of the frame that count as no motion
_CANDIDATES = (MatcherName.IDENTITY, MatcherName.DIAMOND_OPTIMISED, MatcherName.HOMOGRAPHY)


@dataclass(slots=True)
class _Record:
    """What a matcher has shown so far, smoothed; before it was asked, what it typically takes."""

    reuse: float
    milliseconds: float
    asked: bool = False

    def note(self, reuse: float, milliseconds: float) -> None:
        keep = _MEMORY if self.asked else 0.0
        self.reuse = keep * self.reuse + (1 - keep) * reuse
        self.milliseconds = keep * self.milliseconds + (1 - keep) * milliseconds
        self.asked = True


class Auto:
    """Stays with a matcher while it does as well as it did, and asks others when it does worse or they may pay.

    ``field`` is not among them: the engine reuses what moved together, so a field saves it no more than one shift.
    """

    def __init__(self, config: MatchingConfig) -> None:
        self.last: MatcherName = MatcherName.IDENTITY
        self.reconfigure(config)
        self._records = {
            MatcherName.IDENTITY: _Record(1.0, 0.4),
            MatcherName.DIAMOND_OPTIMISED: _Record(0.9, 3.0),
            MatcherName.HOMOGRAPHY: _Record(0.9, 12.0),
        }
        self._since_curious = 0

    def reconfigure(self, config: MatchingConfig) -> None:
        """Go on with another configuration and what was learned so far."""
        self.config = config
        self._matchers: dict[MatcherName, Matcher] = {
            MatcherName.IDENTITY: Identity(config),
            MatcherName.DIAMOND_OPTIMISED: DiamondOptimised(config),
        }
        self._homography = Homography(config)

    @property
    def name(self) -> str:
        """As :attr:`Matcher.name`."""
        return MatcherName.AUTO.value

    def match(self, reference: Image, frame: Image) -> CacheMap:
        """As :meth:`Matcher.match`."""
        return self.match_anchor(Anchor(reference), frame)

    def match_anchor(self, anchor: Anchor, frame: Image) -> CacheMap:
        """Match a frame with what the stream stands for; the map leads from the anchor's image to the frame."""
        expected = self._records[self.last].reuse
        best = self._ask(self.last, anchor, frame)
        self._since_curious += 1
        if best.reuse_ratio >= expected - _DROP and self._since_curious < _CURIOUS_EVERY:
            return best
        self._since_curious = 0
        for name in self._promising(anchor, frame, best.reuse_ratio):
            found = self._ask(name, anchor, frame)
            gain = (found.reuse_ratio - best.reuse_ratio) * self.config.dense_ms
            if gain > self._records[name].milliseconds - self._records[self.last].milliseconds:
                best, self.last = found, name
        return best

    def _promising(self, anchor: Anchor, frame: Image, reuse: float) -> list[MatcherName]:
        """The other matchers, cheapest first, that may be worth asking: what is not reused yet must outweigh them."""
        missing = (1 - reuse) * self.config.dense_ms
        others = [name for name in _CANDIDATES if name is not self.last]
        worth = [n for n in others if self._records[n].milliseconds < missing or self._is_cheaper(n)]
        if self.last is MatcherName.IDENTITY and seems_still(anchor.in_frame, frame):
            worth = [n for n in worth if n is not MatcherName.HOMOGRAPHY]
        return sorted(worth, key=lambda name: self._records[name].milliseconds)

    def _is_cheaper(self, name: MatcherName) -> bool:
        return self._records[name].milliseconds < self._records[self.last].milliseconds

    def _ask(self, name: MatcherName, anchor: Anchor, frame: Image) -> CacheMap:
        started = time.perf_counter_ns()
        found = self._found(name, anchor, frame)
        self._records[name].note(found.reuse_ratio, (time.perf_counter_ns() - started) / 1e6)
        return found

    def _found(self, name: MatcherName, anchor: Anchor, frame: Image) -> CacheMap:
        if name is MatcherName.HOMOGRAPHY:
            return self._homography.match_anchor(anchor, frame)
        if name is MatcherName.IDENTITY and not anchor.motion.is_none:
            return compare(anchor.image, frame, anchor.motion, self.config)  # the camera stands still again
        anchor.settle()
        return self._matchers[name].match(anchor.image, frame)


def seems_still(before: Image, now: Image) -> bool:
    """Whether the picture as a whole did not move, by phase correlation of small versions."""
    scale = min(1.0, _EVIDENCE_SIDE / max(before.shape[:2]))
    small = [cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA) for image in (before, now)]
    first, second = (image.reshape(*image.shape[:2], -1).mean(axis=2) for image in small)
    if min(first.shape) < 8:
        return False
    window = cv2.createHanningWindow((first.shape[1], first.shape[0]), cv2.CV_64F)
    (dx, dy), response = cv2.phaseCorrelate(first, second, window)
    return bool(response > 0.1 and max(abs(dx), abs(dy)) < _STILL * scale)
