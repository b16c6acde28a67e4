# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Variants of networks that give key points are compared by these, too."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yolo

from cacheinf_ros.catalog.build.catalog_frames import Sample
from cacheinf_ros.catalog.build.variant_accuracy import Judge, Measure
from cacheinf_ros.graph import load_model

SIZE = (96, 128)


def test_boxes_whose_key_points_are_elsewhere_are_right_by_a_sixth(tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = load_model(str(yolo.exported(yolo.lively(yolo.FaceHeads()), tmp_path / "faces.onnx", SIZE)))
    model = replace(model, card=model.card.changed(decoder={"kind": "grids", "score_threshold": 0.2}))
    picture = np.random.default_rng(0).integers(0, 256, (*SIZE, 3), np.uint8)
    judge = Judge(model, [Sample(image=picture)])
    assert judge.measure is Measure.AGREEMENT_PARTS
    assert judge.accuracy(model.module) == pytest.approx(1.0)

    class Elsewhere(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.original = deepcopy(model.module)

        def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
            return {name: each + 1e4 * (each.shape[-1] == 10) for name, each in self.original(image).items()}

    assert judge.accuracy(Elsewhere().eval()) == pytest.approx(1 / 6)
