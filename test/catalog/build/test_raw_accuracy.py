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

TINY = Path(__file__).parents[2] / "networks" / "tiny.py"


def test_values_are_not_compared_by_their_largest() -> None:
    model, samples = load_model(f"{TINY}:tiny"), [Sample(image=np.zeros((48, 64, 3), np.uint8))]
    assert Judge(model, samples).accuracy(model.module) == 1.0
    with pytest.raises(CatalogError, match=r"\(1, 5\) has no classes to compare"):
        Judge(replace(model, card=model.card.changed(decoder={"kind": "raw"})), samples)
