# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Frame skipping and warping of outputs, as policies to compare with."""

import numpy as np
import pytest
from strategies import shifted, textured

from cacheinf_ros.bench.answer import Answer
from cacheinf_ros.bench.policies import Skipping, estimate_shift
from cacheinf_ros.graph import ModelCard

CARD = ModelCard(name="test", factory="test", input_size=(96, 128))
IMAGE = textured(1, 96, 128, blur=3.0)


def answer(value: np.ndarray) -> Answer:
    return Answer({"output": value.astype(np.float32)}, CARD, (96, 128))


def skipped(cached_ms: float, frames: int = 12) -> list[int]:
    """Return which frame each frame's answer comes from."""
    skipping = Skipping((96, 128))
    kept = []
    for index in range(frames):
        dense = answer(np.full((1, 2), index))
        repeated = skipping.answer(IMAGE, dense, cached_ms=cached_ms, dense_ms=12.0)
        kept.append(int(repeated.skipped.values[0][0, 0]))
        assert repeated.warped is None  # a vector cannot move
    assert skipping.computed == len(set(kept))
    return kept


def test_computes_as_often_as_the_time_allows() -> None:
    assert skipped(4.0) == [0, 0, 0, 3, 3, 3, 6, 6, 6, 9, 9, 9]  # computes in a third of the time
    assert skipped(12.0) == list(range(12))
    assert skipped(30.0) == list(range(12))
    assert len(set(skipped(9.0))) == 9  # three quarters of the frames


@pytest.mark.parametrize(("dx", "dy"), [(0, 0), (5, 0), (-7, 4), (0, -6)])
def test_shift_is_found(dx: int, dy: int) -> None:
    x, y = estimate_shift(IMAGE, shifted(IMAGE, dx, dy))
    assert (x * 128, y * 96) == pytest.approx((dx, dy), abs=0.4)


def test_pictures_without_anything_in_common_have_no_shift() -> None:
    assert estimate_shift(textured(2, 96, 128, blur=1.0), textured(3, 96, 128, blur=1.0)) == (0.0, 0.0)


def test_maps_move_with_the_picture() -> None:
    skipping = Skipping((96, 128))
    kept = answer(np.arange(2 * 12 * 16).reshape(1, 2, 12, 16))
    skipping.answer(IMAGE, kept, cached_ms=1.0, dense_ms=100.0)
    repeated = skipping.answer(shifted(IMAGE, 8, 0), answer(np.zeros((1, 2, 12, 16))), cached_ms=1.0, dense_ms=100.0)
    assert repeated.skipped is kept and repeated.warped is not None
    # 8 pixels of the image are one of the output; the border is repeated where new content enters
    expected = kept.values[0][..., [0, *range(15)]]
    assert np.allclose(repeated.warped.values[0], expected, atol=0.5)
    still = skipping.answer(IMAGE, answer(np.zeros((1, 2, 12, 16))), cached_ms=1.0, dense_ms=100.0)
    assert still.warped is not None and np.allclose(still.warped.values[0], kept.values[0], atol=0.2)
