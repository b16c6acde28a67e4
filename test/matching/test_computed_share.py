# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The predicted share that a network will compute for a cache map equals OpenCV's dilation."""

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.matching.computed_share import computed_share


def share_of(reusable: NDArray[np.bool_]) -> float:
    rows, columns = reusable.shape
    return computed_share(CacheMap.of_blocks(reusable, (10 * rows, 10 * columns), 10, Motion.none()))


def test_changes_that_lie_together_cost_less() -> None:
    together, scattered = np.ones((20, 20), np.bool_), np.ones((20, 20), np.bool_)
    together[8:11, 8:11] = False
    scattered[1::6, 1::6] = False
    assert share_of(together) == pytest.approx(49 / 400)  # two blocks more on each side
    assert share_of(scattered) > 0.5


@given(arrays.arrays(np.bool_, arrays.array_shapes(min_dims=2, max_dims=2, max_side=12), elements=st.booleans()))
def test_two_blocks_in_each_direction(reusable: NDArray[np.bool_]) -> None:
    changed = (~reusable).view(np.uint8)
    assert share_of(reusable) == pytest.approx(cv2.dilate(changed, np.ones((5, 5), np.uint8)).mean())
