# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The class of each pixel is the one that numpy's argmax finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.engine.decoders.best_class_map import best_class_map


@given(classes=st.integers(1, 40), height=st.integers(1, 9), width=st.integers(1, 70), seed=st.integers(0, 2**32 - 1))
def test_it_is_argmax_and_of_equal_scores_the_first(classes: int, height: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(-3, 4, (classes, height, width)).astype(np.float32)
    scores[rng.random(scores.shape) < 0.1] = -np.inf
    np.testing.assert_array_equal(best_class_map(scores), scores.argmax(0))
    apart = np.repeat(scores, 2, axis=2)[:, :, ::2]
    np.testing.assert_array_equal(best_class_map(apart), scores.argmax(0))
    by_pixel = np.ascontiguousarray(scores.transpose(1, 2, 0)).transpose(2, 0, 1)
    np.testing.assert_array_equal(best_class_map(by_pixel), scores.argmax(0))
    scores.flags.writeable = False
    np.testing.assert_array_equal(best_class_map(scores), scores.argmax(0))


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int64])
def test_other_numbers_are_compared_too(dtype: type) -> None:
    scores = np.random.default_rng(0).integers(-3, 4, (5, 6, 7)).astype(dtype)
    np.testing.assert_array_equal(best_class_map(scores), scores.argmax(0))


def test_as_many_classes_as_a_byte_tells_apart() -> None:
    scores = np.eye(256, dtype=np.float32)[:, None]
    np.testing.assert_array_equal(best_class_map(scores)[0], np.arange(256))
