# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How far a change of the picture spreads: the share of each tensor that has to be computed for one frame.

An output pixel has to be computed where its receptive field meets a changed pixel. Receptive fields are nearly square,
so that this holds within a chessboard distance of the changed pixels that is the same for all pixels of a tensor: one
distance transform of the picture gives the shares of all tensors.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.execution.active import ActiveSet, Mask, pooled
from cacheinf_ros.engine.execution.plan import Plan
from cacheinf_ros.engine.rematerialisation import RegionModel, Regions

Numbers = NDArray[np.float64]

_CELLS = 20_000  # the largest number of cells into which the picture is divided: more add nothing that matters
_EVERYWHERE = np.inf
_ACROSS = 512  # pixels from left to right: two in each of as many pictures as a card may say


class Activity:
    """Predicts the share of each of a network's tensors that is computed for a frame.

    Attributes:
        size: (height, width) of the input.
        reach: float64 [tensors]: how far a change of the input spreads, in pixels of the input; infinite where any
            change reaches everything, negative where none reaches anything. Tensor 0 is the input.
    """

    def __init__(self, plan: Plan, sets: dict[int, ActiveSet]) -> None:
        """Prepare; ``sets`` are the active sets of a plan by the tensors' numbers, without the input's."""
        self.size = plan.input.size
        height, width = self.size
        self._side = 1
        while (height // self._side) * (width // self._side) > _CELLS:
            self._side += 1
        regions = RegionModel(()).follow(plan, _single_pixels(self.size))
        self.reach = np.zeros(1 + max(sets, default=0))
        for tensor, active in sets.items():
            self.reach[tensor] = _reach(regions[active], active.size, self.size)

    def shares(self, mask: Mask) -> Numbers:
        """Return, float64 [tensors], the share of the pixels whose receptive field meets the mask.

        Args:
            mask: uint8, 1 where the input has changed, at the input's size or a smaller one.
        """
        if not mask.any():
            return np.zeros(len(self.reach))
        cells = pooled(mask, (self.size[0] // self._side or 1, self.size[1] // self._side or 1))
        distance = cv2.distanceTransform(1 - cells, cv2.DIST_C, 3)
        reached = np.cumsum(np.bincount(distance.astype(np.int32).ravel())) / cells.size
        shares = np.interp(self.reach / self._side, np.arange(len(reached)), reached, left=0.0, right=1.0)
        shares[0] = np.count_nonzero(mask) / mask.size
        return shares


def _single_pixels(size: tuple[int, int]) -> Regions:
    """Return a pixel in the middle of a map, one in the middle of each half, and many from left to right.

    Where frames show several pictures side by side, tensors may be about one of these.
    """
    (height, width), half = size, size[1] // 2
    middles = [(width - 1) // 2, max(0, half - 1) // 2, half + max(0, half - 1) // 2]
    columns = np.array([*middles, *((2 * np.arange(_ACROSS) + 1) * width // (2 * _ACROSS))])
    place = np.full(len(columns), (height - 1) // 2), columns
    return Regions.of(place, place, np.ones(len(columns), np.int64))


def _reach(seen: Regions, size: tuple[int, int], input_size: tuple[int, int]) -> float:
    """Return the distance within which one pixel of the input changes a tensor, in pixels of the input.

    It is measured along the axes in which the change does not reach the border of the tensor, for the first pixel that
    reaches it at all.
    """
    if not seen.count.any():
        return -1.0
    pixel, found = int(np.flatnonzero(seen.count)[0]), []
    for axis in (0, 1):
        extent = int(seen.last[axis][pixel] - seen.first[axis][pixel]) + 1
        if extent < size[axis]:
            found.append((extent * input_size[axis] / size[axis] - 1) / 2)
    return float(np.mean(found)) if found else _EVERYWHERE
