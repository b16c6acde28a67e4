# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Outputs that no card explains: what is guessed of them, and what is refused rather than read wrongly."""

from __future__ import annotations

import numpy as np
import pytest

from cacheinf_ros.engine.decoders import decode
from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph import ModelCard
from cacheinf_ros.graph.decoder_configs import DenseMap

SIZE = (4, 4)
CARD = ModelCard(name="net", factory="f", input_size=SIZE)


def test_probabilities_are_reported_as_they_are() -> None:
    """Many classifiers' files end with a softmax; after a second one, 0.97 of ten classes was 0.23."""
    scores = np.zeros((1, 10), np.float32)
    scores[0, 3], scores[0, 4] = 0.97, 0.03
    best = decode({"y": scores}, CARD, SIZE).classes[0]
    assert best.id == 3 and best.score == pytest.approx(0.97)


def test_logits_become_probabilities() -> None:
    logits = np.array([[0.0, np.log(3), -40.0]], np.float32)
    assert [each.score for each in decode({"y": logits}, CARD, SIZE).classes] == pytest.approx([0.75, 0.25, 0.0])


def test_a_single_score_for_each_pixel_is_no_map_of_classes() -> None:
    """It was read as one: of a single channel the best class is always the first."""
    card = CARD.changed(decoder=DenseMap())
    with pytest.raises(ModelError, match="a single score: let the network end with a threshold"):
        decode({"y": np.full((1, 1, 4, 4), 5, np.float32)}, card, SIZE)
    assert decode({"y": np.full((1, 1, 4, 4), 5)}, card, SIZE).class_map is not None
    assert decode({"y": np.full((1, 1, 4, 4), 5, np.float32)}, CARD, SIZE).class_map is None
