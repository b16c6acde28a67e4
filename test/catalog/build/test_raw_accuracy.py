# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Variants of networks whose outputs are values cannot be compared by class."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cacheinf_ros.catalog.build.catalog_frames import Sample
from cacheinf_ros.catalog.build.variant_accuracy import Judge
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import load_model

PICTURE = np.zeros((48, 64, 3), np.uint8)
TINY = Path(__file__).parents[2] / "networks" / "tiny.py"


def test_values_are_not_compared_by_their_largest() -> None:
    model, samples = load_model(f"{TINY}:tiny"), [Sample(image=np.zeros((48, 64, 3), np.uint8))]
    assert Judge(model, samples).accuracy(model.module) == 1.0
    with pytest.raises(CatalogError, match=r"\(1, 5\) has no scores .* labels or a decoder in a model card"):
        Judge(replace(model, card=model.card.changed(decoder={"kind": "raw"})), samples)


@pytest.mark.parametrize("made", ["image[:, :2]", "image.mean((2, 3))", "(image, image)", "image.argmax(1, True)"])
def test_outputs_that_are_not_known_to_be_scores_are_refused(made: str, tmp_path: Path) -> None:
    """Flow and angles have no best class; mode bounded judges them as values."""
    (tmp_path / "any.py").write_text(
        f"import torch\nclass Any(torch.nn.Module):\n    def forward(self, image):\n        return {made}\n"
    )
    model, samples = load_model(f"{tmp_path}/any.py:Any", input_size=(48, 64)), [Sample(image=PICTURE)]
    with pytest.raises(CatalogError, match="has no scores that are known to be those of classes"):
        Judge(model, samples)
    with pytest.raises(CatalogError, match="has no scores that are known to be those of classes"):
        Judge(model, [Sample(image=PICTURE, class_id=1)])  # a known class does not make them scores


@pytest.mark.parametrize("made", ["image[:, :2]", "image.mean((2, 3))"])
def test_labels_make_few_channels_classes(made: str, tmp_path: Path) -> None:
    (tmp_path / "any.py").write_text(
        f"import torch\nclass Any(torch.nn.Module):\n    def forward(self, image):\n        return {made}\n"
    )
    model = load_model(f"{tmp_path}/any.py:Any", input_size=(48, 64))
    model = replace(model, card=model.card.changed(labels=("road", "rest")))
    assert Judge(model, [Sample(image=PICTURE)]).accuracy(model.module) == 1.0
