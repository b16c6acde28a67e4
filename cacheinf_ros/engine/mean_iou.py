# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Mean intersection over union: how well class maps agree with those that somebody drew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.frame_placement import Placement, left_picture, picture_size
from cacheinf_ros.errors import SourceError
from cacheinf_ros.graph import ModelCard

UNJUDGED = 255
"""The number of pixels whose class nobody knows, as in the maps of VOC and Cityscapes."""
Drawn = NDArray[np.uint8]
MapCounts = NDArray[np.int64]
"""Pixels of each class, int64 [3, classes]: those that both maps call so, the network's map, and the drawn one."""


def count_pixels(found: NDArray[Any] | None, right: Drawn, classes: int) -> MapCounts:
    """Count the pixels of each class; those that are :data:`UNJUDGED` do not count.

    Args:
        found: a network's map, [height, width]; None: there is no answer.
        right: the drawn map, of the same size.
        classes: number of classes, of which both maps have no others.
    """
    is_known = right != UNJUDGED
    drawn = right[is_known]
    answer = drawn[:0] if found is None else found[is_known]
    both = drawn[:0] if found is None else drawn[drawn == answer]
    return np.stack([np.bincount(each, minlength=classes) for each in (both, answer, drawn)]).astype(np.int64)


def check_drawn(maps: Sequence[Drawn], classes: int, name: str) -> None:
    """Check that drawn maps, if there are any, have classes, and none but those of the network ``name``.

    Args:
        classes: number of the network's classes.

    Raises:
        SourceError: there are other classes, or nothing is to be judged.
    """
    drawn = {int(number) for right in maps for number in np.unique(right)} - {UNJUDGED}
    if maps and not drawn:
        raise SourceError(f"all pixels of the class maps in labels/ are {UNJUDGED}, which is not judged; draw classes")
    unknown = sorted(number for number in drawn if number >= classes)
    if unknown:
        raise SourceError(
            f"the class maps in labels/ have {', '.join(map(str, unknown[:20]))}, but the classes of {name} are 0 to "
            f"{classes - 1}; number them so, and write {UNJUDGED} where nothing is to be judged"
        )


def mean_iou(counts: MapCounts) -> float:
    """Return the mean of both maps' common pixels by those in either, over the classes that are in either map; or 1."""
    common, found, right = counts
    either = found + right - common
    seen = either > 0
    return float((common[seen] / either[seen]).mean()) if seen.any() else 1.0


def drawn_within(right: Drawn, card: ModelCard, size: tuple[int, int]) -> Drawn:
    """Bring a frame's drawn map to what shows the frame in a network's output of this (height, width).

    The pixels in the cells' middle count. The margins of a letterboxed frame are left out, and of a frame that shows
    several pictures all but the left one.
    """
    right = left_picture(right, card)
    place = Placement.of((right.shape[0], right.shape[1]), picture_size(card), card.resize)
    rows, columns = place.map_content(size)
    inside = columns.stop - columns.start, rows.stop - rows.start
    return np.asarray(cv2.resize(right, inside, interpolation=cv2.INTER_NEAREST_EXACT), np.uint8)
