# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Matching of a stream of frames, which owns the reference and decides when it is dropped."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.geometry import COMPARED, check_image, visible_blocks
from cacheinf_ros.matching.auto import Auto
from cacheinf_ros.matching.keyframe import Keyframe
from cacheinf_ros.matching.matchers import KeyframeMatcher, make_matcher
from cacheinf_ros.matching.matching_config import IDENTICAL, LASTING_EXPIRY, MatcherName, MatchingConfig
from cacheinf_ros.matching.noise import LOWEST_DB, NoiseEstimate
from cacheinf_ros.matching.savings import Choice

FIRST_FRAME = "first frame"
EXPIRED = "expired"
RESAMPLED = "resampled too often"
OTHER_LEVELS = "a picture of black and white alone follows another, or is followed by one"
_NOISE_STEP = 0.5  # dB by which the estimate of the noise must change to count
_SAMPLES = 16  # rows and columns that are looked at for grey first: hardly any picture of a camera goes further


class MatchingStream:
    """Matches each frame with the reference: the input that a cache which follows the maps was computed from.

    The reference is not the frame before, of which it took over only the active parts: compared with the frame before,
    slow change would slip through below the threshold for ever. For one thread at a time.

    In pictures of black and white alone, as of an occupancy grid, nothing is noise: whatever is configured, only blocks
    that are equal in every byte are reusable there, at the same place or after a shift; homography tolerates what
    resampling explains. (One cell in a block of 10 x 10 is just 20 dB.)
    """

    def __init__(self, config: MatchingConfig) -> None:
        self._keyframe: Keyframe | None = None
        self._matched = 0  # frames matched since the reference was last taken as a whole
        self._dropped: str = FIRST_FRAME  # why there is no reference; empty where there is one
        self._noise = NoiseEstimate()
        self._has_two_levels = False  # the last picture that tells
        self._config = self._in_use = config
        self._matcher = make_matcher(config)

    @property
    def config(self) -> MatchingConfig:
        """The configuration in use."""
        return self._config

    @property
    def reference(self) -> NDArray[np.uint8] | None:
        """The composed input, read-only, valid until the next :meth:`match`; None where there is none."""
        if self._dropped or self._keyframe is None:
            return None
        view = self._keyframe.in_frame.view()
        view.flags.writeable = False
        return view

    def match(self, image: NDArray[np.uint8]) -> CacheMap:
        """Return what of this frame is reusable; the reference then becomes the frame where it is active.

        Args:
            image: uint8 [height, width] or [height, width, channels]; it is copied.

        Returns:
            The cache map. Nothing is reusable in it, and it names the reason, for the first frame, after a change of
            size, and once ``expiry`` frames were matched with the reference.

        Raises:
            MatchingError: this is no such image; the reference stays as it was.
        """
        check_image(image)
        self._judge(image)
        reason = self._why_anew(image)
        if reason:
            self._start_anew(image)
            return CacheMap.nothing((image.shape[0], image.shape[1]), self._config.block_size, reason)
        assert self._keyframe is not None
        cache_map = self._found(self._keyframe, image)
        if self._keyframe.motion.is_none and not cache_map.reason:
            self._adapt(self._keyframe.image, image, cache_map)
        if cache_map.is_empty:
            self._start_anew(image)
            return cache_map
        since_before = _since(self._keyframe.motion, cache_map)
        self._keyframe.follow(image, cache_map)
        self._matched += 1
        return since_before

    @property
    def choice(self) -> Choice | None:
        """How the last frame was matched, where the matcher had a choice; otherwise None."""
        return self._matcher.choice if isinstance(self._matcher, Auto) else None

    def learn(self, choice: Choice | None, computed_share: float, computing_ms: float) -> None:
        """Take note of the share of a frame that was computed, 0 to 1, and of the time it took: choices go by both.

        Args:
            choice: value of :attr:`choice` after the frame was matched.
        """
        if choice is not None and isinstance(self._matcher, Auto):
            self._matcher.learn(choice, computed_share, computing_ms)

    def reset(self, reason: str) -> None:
        """Drop the reference: nothing of the next frame is reusable, for this reason."""
        self._dropped = reason or "reset"

    def reconfigure(self, config: MatchingConfig) -> None:
        """Switch to another configuration, and keep the reference."""
        self._config = config
        self._use(config)

    def _judge(self, image: NDArray[np.uint8]) -> None:
        """Tolerate nothing from the first picture of black and white alone on, until one with grey in it comes."""
        has_two_levels = is_black_and_white(image)
        if has_two_levels is not None and has_two_levels is not self._has_two_levels:
            self._has_two_levels = has_two_levels
            self._dropped = self._dropped or OTHER_LEVELS
            self._use(self._config)

    def _use(self, config: MatchingConfig) -> None:
        if self._has_two_levels:
            config = config.model_copy(update={"threshold": math.inf, "warp_threshold": 0.0})
        self._in_use = config
        if isinstance(self._matcher, Auto) and config.matcher is MatcherName.AUTO:
            self._matcher.reconfigure(config)
        else:
            self._matcher = make_matcher(config)

    def _found(self, keyframe: Keyframe, image: NDArray[np.uint8]) -> CacheMap:
        """Return the map from the keyframe's image to the frame."""
        if isinstance(self._matcher, KeyframeMatcher):
            return self._matcher.match_keyframe(keyframe, image)
        keyframe.settle()
        return self._matcher.match(keyframe.image, image)

    def _adapt(self, reference: NDArray[np.uint8], image: NDArray[np.uint8], cache_map: CacheMap) -> None:
        """Let the threshold follow the noise, so that a still scene is not computed because of it."""
        if (
            self._has_two_levels
            or not self._config.adapt_to_noise
            or not LOWEST_DB < self._config.threshold < IDENTICAL
        ):
            return
        self._noise.see(reference, image, cache_map)
        wanted = max(0.0, min(self._config.threshold, self._noise.threshold_db))
        change = abs(wanted - self._in_use.threshold)
        if change >= _NOISE_STEP or (change > 0 and wanted == self._config.threshold):
            # not checked anew: the time of a dense frame, as measured, may be beyond what users may give
            self._use(self._config.model_copy(update={"threshold": wanted}))

    def _why_anew(self, image: NDArray[np.uint8]) -> str:
        """Return why the reference cannot be used; empty where it can."""
        if self._dropped:
            return self._dropped
        assert self._keyframe is not None
        if image.shape != self._keyframe.image.shape:
            return f"image size changed from {_size(self._keyframe.image)} to {_size(image)}"
        if self._keyframe.resampled > COMPARED.most_resampled:
            return RESAMPLED
        return EXPIRED if self._matched >= (self._config.expiry or LASTING_EXPIRY) else ""

    def _start_anew(self, image: NDArray[np.uint8]) -> None:
        if self._keyframe is None:
            self._keyframe = Keyframe(image)
        else:
            self._keyframe.take(image)
        self._matched, self._dropped = 0, ""


def is_black_and_white(image: NDArray[np.uint8]) -> bool | None:
    """Tell whether an image, uint8 [height, width] or [height, width, channels], has the levels 0 and 255 alone.

    Returns:
        None: it has only one of them, which says nothing: a camera in darkness or glare gives such a picture, and so
        does a grid without a point.
    """
    height, width = image.shape[:2]
    if _has_grey(image[:: max(1, height // _SAMPLES), :: max(1, width // _SAMPLES)]) or _has_grey(image):
        return False
    return True if 0 < cv2.countNonZero(image.reshape(height, -1)) < image.size else None


def _has_grey(image: NDArray[np.uint8]) -> bool:
    return cv2.countNonZero(cv2.inRange(image.reshape(image.shape[0], -1), 1, 254)) > 0


def _since(before: Motion, cache_map: CacheMap) -> CacheMap:
    """Turn a map from the keyframe into one from the frame before, without blocks that this did not show.

    ``before``: the motion keyframe -> frame before.
    """
    if before.is_none:
        return cache_map
    motion = before.inverse().then(cache_map.motion)
    visible = visible_blocks(motion, cache_map.image_size, cache_map.block_size)
    return CacheMap.of_blocks(cache_map.reusable & visible, cache_map.image_size, cache_map.block_size, motion)


def _size(image: NDArray[np.uint8]) -> str:
    """Format the size of an image as width x height, with the channels of a colour image."""
    height, width, *channels = image.shape
    return "x".join(map(str, (width, height, *channels)))
