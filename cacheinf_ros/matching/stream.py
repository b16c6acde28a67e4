"""Matching of a stream: who owns the reference, and when it is dropped."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.matching.composing import compose_image
from cacheinf_ros.matching.config import MatchingConfig
from cacheinf_ros.matching.images import check_image
from cacheinf_ros.matching.make import make_matcher

FIRST_FRAME = "first frame"
EXPIRED = "expired"


class MatchingStream:
    """Matches each frame with the reference: what a cache that follows the maps was computed from.

    That is not the frame before, of which it took over only the active parts: against the frame before, slow change
    would slip through below the threshold for ever. For one thread at a time.
    """

    def __init__(self, config: MatchingConfig) -> None:
        self._config = config
        self._matcher = make_matcher(config)
        self._reference = np.empty((0, 0), np.uint8)
        self._spare = np.empty((0, 0), np.uint8)
        self._matched = 0  # frames matched since the reference was last taken as a whole
        self._dropped: str = FIRST_FRAME  # why there is no reference; empty where there is one

    @property
    def config(self) -> MatchingConfig:
        """The configuration in use."""
        return self._config

    @property
    def reference(self) -> NDArray[np.uint8] | None:
        """The composed input, read-only, valid until the next :meth:`match`; None where there is none."""
        if self._dropped:
            return None
        view = self._reference.view()
        view.flags.writeable = False
        return view

    def match(self, image: NDArray[np.uint8]) -> CacheMap:
        """Say what of this frame is reusable; the reference then becomes the frame where it is active.

        Args:
            image: uint8 [height, width] or [height, width, channels]; it is copied.

        Returns:
            Nothing reusable, with the reason, for the first frame, after a change of size, and once ``expiry``
            frames were matched with the reference.

        Raises:
            MatchingError: for anything but such an image; the reference stays as it was.
        """
        check_image(image)
        reason = self._why_anew(image)
        if reason:
            self._start_anew(image)
            return CacheMap.nothing((image.shape[0], image.shape[1]), self._config.block_size, reason)
        cache_map = self._matcher.match(self._reference, image)
        compose_image(self._reference, image, cache_map, out=self._spare)
        self._reference, self._spare = self._spare, self._reference
        self._matched += 1
        return cache_map

    def reset(self, reason: str) -> None:
        """Drop the reference: nothing of the next frame is reusable, for this reason."""
        self._dropped = reason or "reset"

    def reconfigure(self, config: MatchingConfig) -> None:
        """Go on with another configuration and the same reference."""
        self._matcher = make_matcher(config)
        self._config = config

    def _why_anew(self, image: NDArray[np.uint8]) -> str:
        """Why the reference cannot be used; empty where it can."""
        if self._dropped:
            return self._dropped
        if image.shape != self._reference.shape:
            return f"image size changed from {_size(self._reference)} to {_size(image)}"
        return EXPIRED if self._matched >= self._config.expiry else ""

    def _start_anew(self, image: NDArray[np.uint8]) -> None:
        if image.shape != self._reference.shape:
            self._reference, self._spare = np.empty(image.shape, np.uint8), np.empty(image.shape, np.uint8)
        np.copyto(self._reference, image)
        self._matched, self._dropped = 0, ""


def _size(image: NDArray[np.uint8]) -> str:
    """Width x height, and the channels of a colour image."""
    height, width, *channels = image.shape
    return "x".join(map(str, (width, height, *channels)))
