# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The types of decoded outputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredClass:
    """A class with its score or probability."""

    id: int
    name: str
    score: float


class KeyPoint(NamedTuple):
    """A place on an object, such as a joint, in pixels of the frame; with its score, 0 to 1."""

    x: float
    y: float
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A detection, with left, top, width and height in pixels of the frame.

    Attributes:
        key_points: key points in the model's order; empty where the model gives none.
        outlines: polygons ((x, y), ...) around the parts of the object's mask, in pixels of the frame; holes are left
            out; empty where the model gives no masks.
        track: the number, from 1, that stays with the object from frame to frame; 0: the object is not followed.
    """

    x: float
    y: float
    width: float
    height: float
    class_id: int
    name: str
    score: float
    key_points: tuple[KeyPoint, ...] = ()
    outlines: tuple[tuple[tuple[float, float], ...], ...] = ()
    track: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The decoded outputs of one frame.

    Attributes:
        classes: best first; of several attributes, each one's best.
        boxes: best first.
        class_map: uint8 [height, width] of the frame, at the size that it has in the model's output, or None.
        is_certain: whether the model's card says how its outputs are to be read; else their shape was taken as a hint.
    """

    classes: tuple[ScoredClass, ...] = ()
    boxes: tuple[Box, ...] = ()
    class_map: NDArray[np.uint8] | None = None
    is_certain: bool = field(default=True, compare=False)
