# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""NanoDet's decoder, compared with one that reads one cell after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.engine.decoders.nanodet import decode_nanodet
from cacheinf_ros.graph.decoder_configs import NanoDet

SIZE = (48, 64)
DECODER = NanoDet(strides=(16, 32), score_threshold=0.6, iou_threshold=1.0)
COUNTS = (12, 4)


def plain(scores: np.ndarray, logits: np.ndarray, decoder: NanoDet) -> list[tuple[float, ...]]:
    """Return (score, class, x, y, width, height) of all boxes, best first, without suppression."""
    found, cell = [], 0
    for stride in decoder.strides:
        for row in range(-(-SIZE[0] // stride)):
            for column in range(-(-SIZE[1] // stride)):
                sides = []
                for side in logits[cell].reshape(4, 8).astype(np.float64):
                    powers = np.exp(side)
                    sides.append(sum(i * p for i, p in enumerate(powers / powers.sum())) * stride)
                x, y = (column + decoder.cell_center) * stride, (row + decoder.cell_center) * stride
                left, top, right, bottom = sides
                if scores[cell].max() >= decoder.score_threshold:
                    box = (x - left, y - top, left + right, top + bottom)
                    found.append((scores[cell].max(), scores[cell].argmax(), *box))
                cell += 1
    return sorted(found, key=lambda each: -each[0])


@given(seed=st.integers(0, 10_000), together=st.booleans(), classes=st.integers(1, 5))
def test_boxes_are_those_of_a_plain_decoder(seed: int, together: bool, classes: int) -> None:
    rng = np.random.default_rng(seed)
    scores, logits = rng.random((16, classes)).astype(np.float32), rng.normal(size=(16, 32)).astype(np.float32)
    decoder = DECODER.changed(cell_center=0.0) if together else DECODER
    if together:
        outputs = {"y": np.concatenate([scores, logits], axis=1)[None]}
    else:
        parts = [scores[:12], scores[12:], logits[:12], logits[12:]]
        outputs = {str(i): parts[i][None] for i in rng.permutation(4)}
    found = decode_nanodet(outputs, decoder, SIZE)
    expected = plain(scores, logits, decoder)
    ours = [(s, k, *b) for b, s, k in zip(*found, strict=True)]
    assert np.allclose(np.array(ours).reshape(-1, 6), np.array(expected).reshape(-1, 6), atol=1e-3)


def test_shapes_that_do_not_fit_are_named() -> None:
    with pytest.raises(ValueError, match=r"grids of \[12, 4\] cells"):
        decode_nanodet({"a": np.zeros((1, 12, 80), np.float32)}, DECODER, SIZE)


GRIDS = {"s16": (1, 12, 3), "s32": (1, 4, 3), "d16": (1, 12, 32), "d32": (1, 4, 32)}


@pytest.mark.parametrize(
    "shapes",
    [
        {**GRIDS, "s8": (1, 48, 3), "d8": (1, 48, 32)},
        {**GRIDS, "features": (1, 8, 3, 4)},
        {name: shape[1:] for name, shape in GRIDS.items()},
        {"y": (16, 35)},
        {"y": (1, 16, 35), "z": (1, 5)},
        {"y": (2, 8, 35)},
    ],
)
def test_outputs_of_other_networks_are_refused(shapes: dict[str, tuple[int, ...]]) -> None:
    """Grids of other strides were left out without a word, and whatever had as many rows was read."""
    decode_nanodet({name: np.zeros(shape, np.float32) for name, shape in GRIDS.items()}, DECODER, SIZE)
    outputs = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    with pytest.raises(ValueError, match=r"or one \[1, 16, classes \+ 32\], not "):
        decode_nanodet(outputs, DECODER, SIZE)
