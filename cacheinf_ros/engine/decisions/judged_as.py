# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tells as what a model's answers are judged: as its card says, or else by a guess from a single output."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.decisions.class_maps import are_given, shows_classes
from cacheinf_ros.graph import ModelCard
from cacheinf_ros.graph.decoder_configs import Detector, Raw

FEW_CHANNELS = 3
"""The number of channels up to which an output is as often flow, normals or an angle as scores of classes."""
_SUM = 1e-3  # how far the sum of probabilities may be from 1


class JudgedAs(Enum):
    """What answers are judged as; the values are texts for users."""

    BOXES = "boxes"
    CLASSES = "classes"
    GUESSED_CLASSES = (
        "classes, a guess by the shape of the output: where its values are something else, changes of them count for "
        "nothing until a model card says 'decoder: {kind: raw}'"
    )
    VALUES = "values"
    VALUES_OF_FEW_CHANNELS = (
        f"values, which is strict, as {FEW_CHANNELS} channels or fewer may be anything: where they are scores of "
        "classes, labels or a decoder in a model card say so"
    )

    @property
    def are_classes(self) -> bool:
        """Whether answers are judged by their classes, be that known or guessed."""
        return self in {JudgedAs.CLASSES, JudgedAs.GUESSED_CLASSES}

    @property
    def is_guess(self) -> bool:
        """Whether nothing but the output's shape says so."""
        return self in {JudgedAs.GUESSED_CLASSES, JudgedAs.VALUES_OF_FEW_CHANNELS}


def judged_as(card: ModelCard, outputs: Mapping[str, NDArray[Any]]) -> JudgedAs:
    """Tell as what a model's answers are judged; ``outputs``: those for any frame, by name.

    A wrong guess of classes breaks the promise, and nobody notices; a wrong guess of values only makes it stricter.
    """
    if isinstance(card.decoder, Detector):
        return JudgedAs.BOXES
    if len(outputs) != 1 or isinstance(card.decoder, Raw):
        return JudgedAs.VALUES
    (values,) = outputs.values()
    if not shows_classes(values):
        return JudgedAs.VALUES
    if card.decoder is not None or card.labels or are_given(values):
        return JudgedAs.CLASSES
    if values.shape[1] <= FEW_CHANNELS and not _are_probabilities(values):
        return JudgedAs.VALUES_OF_FEW_CHANNELS
    return JudgedAs.GUESSED_CLASSES


def _are_probabilities(scores: NDArray[Any]) -> bool:
    """Tell whether scores by channel sum to 1, as after softmax; neither flow nor normals nor pictures do."""
    return bool((scores >= 0).all() and np.allclose(scores.sum(axis=1, dtype=np.float64), 1.0, rtol=0, atol=_SUM))
