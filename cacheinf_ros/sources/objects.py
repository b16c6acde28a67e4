# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The true objects in a frame, where a source knows them: built-in scenes, and folders with masks or labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import cv2
import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueObject:
    """An object in a frame.

    Attributes:
        label: name of the object's class; empty where unknown.
        x, y, width, height: the object's box, in pixels of the frame.
    """

    label: str
    x: float
    y: float
    width: float
    height: float


@runtime_checkable
class KnowsObjects(Protocol):
    """A source that knows what its frames show."""

    def objects(self, index: int) -> tuple[TrueObject, ...] | None:
        """Return the objects of the frame at ``index``; None where they are unknown."""
        ...

    def classes(self) -> tuple[str, ...]:
        """Return the classes of which every object is among :meth:`objects`; empty: none is known to be so.

        Objects that are hidden for the most part, and crowds that were marked as one, need not be among them.
        """
        ...


def masked_objects(mask: NDArray[Any]) -> tuple[TrueObject, ...]:
    """Return an object for each colour except black in a mask, [height, width] or [height, width, channels]."""
    colours = mask.reshape(*mask.shape[:2], -1).astype(np.int64)
    numbers = (colours * 256 ** np.arange(colours.shape[2])).sum(axis=2)
    found = []
    for number in np.unique(numbers[numbers > 0]):
        x, y, width, height = cv2.boundingRect((numbers == number).astype(np.uint8))
        found.append(TrueObject(label="", x=x, y=y, width=width, height=height))
    return tuple(found)
