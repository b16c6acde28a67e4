# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Frames that show the pictures of two sources side by side, as networks with two inputs take them."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Literal

from cacheinf_ros.sources.frame import Frame, HasClock, Source
from cacheinf_ros.sources.picture_pairs import PicturePairs, side_by_side

_Side = Literal["left", "right"]


class PairSource:
    """Two sources whose pictures are paired by their stamps: those of a stereo camera, or of colour and depth.

    Each frame has the left picture's stamp. Left pictures without a right one within half a period are left out. Topics
    of bags are compared by the times of recording, other sources by the time since their first picture.

    Args:
        left: gives the left halves of frames, and their size.
        right: gives the right halves.
    """

    def __init__(self, left: Source, right: Source) -> None:
        self.name = f"{left.name} + {right.name}"
        self.fps: float = left.fps
        self.length: int | None = left.length
        if left.length is not None and right.length is not None:
            self.length = min(left.length, round(right.length * left.fps / right.fps))
        self._left, self._right = left, right

    def __iter__(self) -> Iterator[Frame]:
        """Yield the frames in order; raises :class:`SourceError` where a picture cannot be read."""
        for index, (left, right) in enumerate(self._pairs()):
            yield Frame(index=index, stamp_ns=left.stamp_ns, image=side_by_side(left.image, right.image))

    def _pairs(self) -> Iterator[tuple[Frame, Frame]]:
        pairs: PicturePairs[Frame] = PicturePairs(round(0.5e9 / min(self._left.fps, self._right.fps)), in_order=True)
        later_ns = _begins_later_ns(self._left, self._right)
        each = (_stamped("left", self._left, 0), _stamped("right", self._right, later_ns))
        for stamp_ns, side, frame in heapq.merge(*each, key=lambda taken: taken[:2]):
            yield from pairs.add_left(stamp_ns, frame) if side == "left" else pairs.add_right(stamp_ns, frame)
        yield from pairs.finish()


def _stamped(side: _Side, source: Source, later_ns: int) -> Iterator[tuple[int, _Side, Frame]]:
    for frame in source:
        yield frame.stamp_ns + later_ns, side, frame


def _begins_later_ns(left: Source, right: Source) -> int:
    """Return how much later than the left source's first picture that of the right one was taken."""
    if isinstance(left, HasClock) and isinstance(right, HasClock):
        return right.begins_ns - left.begins_ns
    return 0
