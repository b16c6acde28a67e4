# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The number of classes that outputs have, decoder by decoder."""

from __future__ import annotations

import numpy as np
import pytest

from cacheinf_ros.engine.decoders import class_count
from cacheinf_ros.graph.decoder_configs import (
    Attributes,
    Boxes,
    Centers,
    ClassVector,
    Decoder,
    DenseMap,
    FastestDet,
    Grids,
    NanoDet,
    Raw,
    SsdBoxes,
    Yolo,
)

SIZE = (48, 64)


@pytest.mark.parametrize(
    ("decoder", "shapes", "count"),
    [
        (ClassVector(), {"y": (1, 5)}, 5),
        (DenseMap(), {"y": (1, 5, 6, 8)}, 5),
        (Boxes(), {"boxes": (1, 9, 4), "scores": (1, 9, 5)}, 5),
        (Boxes(background=4), {"boxes": (1, 9, 4), "scores": (1, 9, 5)}, 4),
        (SsdBoxes(background=0), {"boxes": (1, 9, 4), "scores": (1, 9, 5)}, 5),  # labels name the background, too
        (Centers(), {"y": (1, 9, 6, 8)}, 5),
        (FastestDet(), {"y": (1, 10, 6, 8)}, 5),
        (Yolo(), {"y": (1, 9, 40)}, 5),
        (Yolo(masks="p"), {"y": (1, 12, 40), "p": (1, 3, 12, 16)}, 5),
        (Yolo(values_first=False, objectness=True, key_points=2), {"y": (1, 40, 16)}, 5),
        (NanoDet(strides=(16,)), {"d": (1, 12, 32), "s": (1, 12, 5)}, 5),
        (NanoDet(strides=(16, 32)), {"y": (1, 16, 37)}, 5),
        (Grids(strides=(16,), key_points=3), {"b": (1, 12, 4), "p": (1, 12, 6), "s": (1, 12, 5), "o": (1, 12, 1)}, 5),
        (Raw(), {"y": (1, 9)}, None),
        (Attributes(), {"y": (1, 9)}, None),
    ],
)
def test_classes_are_counted(decoder: Decoder, shapes: dict[str, tuple[int, ...]], count: int | None) -> None:
    outputs = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    assert class_count(outputs, decoder, SIZE) == count


@pytest.mark.parametrize("decoder", [ClassVector(), DenseMap()])
def test_whole_numbers_do_not_tell_how_many_classes_there_are(decoder: Decoder) -> None:
    assert class_count({"y": np.zeros((1, 1, 6, 8), np.int64)}, decoder, SIZE) is None
