# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Decoded outputs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredClass:
    """A class with its score or probability."""

    id: int
    name: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A detection; left, top, width and height in pixels of the frame."""

    x: float
    y: float
    width: float
    height: float
    class_id: int
    name: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """What the outputs say.

    Attributes:
        classes: best first; of several attributes, each one's best.
        boxes: best first.
        class_map: uint8 [height, width] at the model's output size, or None.
        is_certain: whether the model's card says how its outputs are to be read; else their shape was taken as a hint.
    """

    classes: tuple[ScoredClass, ...] = ()
    boxes: tuple[Box, ...] = ()
    class_map: NDArray[np.uint8] | None = None
    is_certain: bool = field(default=True, compare=False)
