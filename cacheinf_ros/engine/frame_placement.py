# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Where a frame lies in the model's input, all over it or with a margin, and which part of it answers are about."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.graph import ModelCard, Resize
from cacheinf_ros.sources import VoxelGrid

Size = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The place of a frame in the model's input.

    Attributes:
        image_size: (height, width) of the frame.
        input_size: (height, width) of the model's input.
        size: (height, width) of the frame in the input.
        top, left: pixels of the margin above and on the left.
        scale: pixels of the input per pixel of the frame, across and along.
        is_frame: whether each pixel of the input is the same pixel of the frame.
    """

    image_size: Size
    input_size: Size
    size: Size
    top: int = 0
    left: int = 0
    scale: tuple[float, float] = field(init=False)
    is_frame: bool = field(init=False)

    def __post_init__(self) -> None:
        scale = self.size[1] / self.image_size[1], self.size[0] / self.image_size[0]
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "is_frame", self.image_size == self.input_size)

    @classmethod
    @lru_cache(maxsize=16)  # frames of a stream are of one size
    def of(cls, image_size: Size, input_size: Size, resize: Resize, pictures: int = 1) -> Placement:
        """Place a frame as a model card asks; margins are rounded as ultralytics and YOLOX round them.

        Of several ``pictures`` side by side, both in the frame and in the input, the left one is placed.
        """
        image_size, input_size = _left(image_size, pictures), _left(input_size, pictures)
        if resize == "stretch":
            return cls(image_size=image_size, input_size=input_size, size=input_size)
        factor = min(side / of for side, of in zip(input_size, image_size, strict=True))
        rounded = int if resize == "letterbox_corner" else round
        height, width = (max(1, rounded(side * factor + 1e-9)) for side in image_size)
        if resize == "letterbox_corner":
            return cls(image_size=image_size, input_size=input_size, size=(height, width))
        top, left = (round((whole - part) / 2 - 0.1) for whole, part in zip(input_size, (height, width), strict=True))
        return cls(image_size=image_size, input_size=input_size, size=(height, width), top=top, left=left)

    @property
    def has_margin(self) -> bool:
        """Whether some pixels of the input show nothing of the frame."""
        return self.size != self.input_size

    @property
    def content(self) -> tuple[slice, slice]:
        """The rows and columns of the input that show the frame."""
        return slice(self.top, self.top + self.size[0]), slice(self.left, self.left + self.size[1])

    def in_input(self, motion: Motion) -> Motion:
        """Convert a motion in pixels of the frame to pixels of the model's input."""
        scaled = motion.scaled(*self.scale)
        if (self.top, self.left) == (0, 0) or scaled.shift is not None:
            return scaled
        back, there = Motion.translation(-self.left, -self.top), Motion.translation(self.left, self.top)
        matrix = back.then(scaled).then(there).matrix
        return Motion(matrix=matrix / matrix[2, 2])

    def points_in_frame(self, points: NDArray[np.float32]) -> NDArray[np.float64]:
        """Convert points [..., 2], (x, y), from pixels of the input to pixels of the frame."""
        return (points.astype(np.float64) - (self.left, self.top)) / self.scale

    def boxes_in_frame(self, boxes: NDArray[np.float32]) -> NDArray[np.float64]:
        """Convert boxes [n, 4], (x, y, width, height), from pixels of the input to pixels of the frame."""
        return np.concatenate([self.points_in_frame(boxes[:, :2]), boxes[:, 2:] / self.scale], axis=1)

    def map_content(self, size: Size) -> tuple[slice, slice]:
        """Return the rows and columns that show the frame in a map of this size, which covers the whole input."""
        spans = []
        for part, whole, cells in zip(self.content, self.input_size, size, strict=True):
            first = min(round(part.start * cells / whole), cells - 1)
            spans.append(slice(first, max(round(part.stop * cells / whole), first + 1)))
        return spans[0], spans[1]


def picture_size(card: ModelCard) -> tuple[int, int]:
    """Return (height, width) of what the outputs are about: the model's input, or the left one of its pictures."""
    assert card.input_size is not None
    return picture_within(card.input_size, card)


def picture_within(size: tuple[int, int], card: ModelCard) -> tuple[int, int]:
    """Return the (height, width) of the left picture in a frame of this (height, width), or of the only one."""
    return _left(size, card.pictures)


def check_voxels(grid: VoxelGrid | None, card: ModelCard) -> None:
    """Check that each cell of a grid is a pixel of what the model takes: slices that are resized would be blended.

    Raises:
        ConfigError: it is not.
    """
    if grid is None:
        return
    assert card.input_size is not None
    slices, (height, width) = grid.slices, grid.frame_size
    if grid.frame_size != card.input_size or (card.pictures > 1 and slices != card.pictures):
        taken = f"{card.pictures} of {'x'.join(map(str, picture_size(card)))} pixels"
        raise ConfigError(
            f"voxels {grid} make {slices} pictures of {height}x{width // slices} pixels, and {card.name} takes "
            f"{taken}: give the cells and the order that it was trained with"
        )


def left_picture(frame: NDArray[np.uint8], card: ModelCard) -> NDArray[np.uint8]:
    """Return a view of the left picture in a frame, uint8 [height, width, ...], or of the only one."""
    return frame[:, : picture_within((frame.shape[0], frame.shape[1]), card)[1]]


def _left(size: Size, pictures: int) -> Size:
    return size[0], size[1] // pictures
