# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Chooses the kind of decisions that a model makes, by its card or by the shapes of its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from cacheinf_ros.engine.decisions.box_decisions import BoxDecisions
from cacheinf_ros.engine.decisions.class_maps import ClassMaps
from cacheinf_ros.engine.decisions.judged_as import JudgedAs, judged_as
from cacheinf_ros.engine.decisions.raw_values import RawValues
from cacheinf_ros.engine.decisions.task import Task
from cacheinf_ros.engine.decoders import Selection
from cacheinf_ros.engine.frame_placement import picture_size
from cacheinf_ros.graph import ModelCard
from cacheinf_ros.graph.decoder_configs import ClassVector

_ALL = Selection()


def task_of_model(
    card: ModelCard,
    outputs: Mapping[str, NDArray[Any]],
    deviations: Sequence[float],
    *,
    selection: Selection = _ALL,
    most_pixels: int | None = None,
) -> Task[Any]:
    """Choose how a model's answers are judged.

    Args:
        outputs: the outputs for any frame, by name.
        deviations: the outputs' standard deviations over varied images; they matter where nobody can read the outputs.
        selection: the boxes that the user gets.
        most_pixels: how many pixels of class maps, and values of other outputs, are looked at; None: all.
    """
    judged = judged_as(card, outputs)
    if judged is JudgedAs.BOXES:
        return BoxDecisions(card, selection)
    if judged.are_classes:
        ((name, values),) = outputs.items()
        has_scores = values.size > 1 and (isinstance(card.decoder, ClassVector) or len(card.labels) == values.size)
        return ClassMaps(name, picture_size(card), resize=card.resize, most_pixels=most_pixels, has_scores=has_scores)
    return RawValues(deviations, picture_size(card), most_values=most_pixels)
