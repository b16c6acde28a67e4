# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of which classes and boxes are reported, and of what users may write to select them."""

from __future__ import annotations

import numpy as np
import pytest

from cacheinf_ros.engine import Selection, decode
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.graph import ModelCard
from cacheinf_ros.graph.decoder_configs import Boxes, ClassVector, Decoder

LABELS = ("person", "car", "traffic light", "cat")


def card(decoder: Decoder) -> ModelCard:
    return ModelCard(name="t", input_size=(10, 10), decoder=decoder, labels=LABELS)


def test_nothing_said_is_everything() -> None:
    assert Selection.of(0.0, "", LABELS) == Selection()
    assert Selection.of(0.0, " , ", LABELS).classes is None


def test_names_and_ids() -> None:
    assert Selection.of(0.5, "Car, traffic light,3", LABELS) == Selection(
        score_threshold=0.5, classes=frozenset({1, 2, 3})
    )
    assert Selection.of(0.0, "7", ()).classes == {7}


def test_a_name_means_all_classes_of_that_name() -> None:
    """ImageNet has two cranes: a bird and a machine."""
    assert Selection.of(0.0, "crane", ("crane", "dog", "crane")).classes == {0, 2}


@pytest.mark.parametrize(
    ("word", "labels", "said"),
    [
        ("persn", LABELS, "near: person"),
        ("zebra", LABELS, "it knows: person, car"),
        ("4", LABELS, "ids, 0 to 3"),
        ("car", (), "no names"),
        ("²", (), "no names"),
        ("9" * 5000, LABELS, "ids, 0 to 3"),
        ("a," * 20_000, LABELS, "too many"),
    ],
)
def test_an_unknown_class_is_told_with_what_is_near(word: str, labels: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Selection.of(0.0, word, labels)


def test_boxes_below_the_threshold_or_of_other_classes_are_left_out() -> None:
    boxes = np.array([[[0, 0, 1, 1], [5, 5, 6, 6], [8, 8, 9, 9]]], np.float32) / 10
    scores = np.array([[[0.9, 0, 0, 0], [0, 0.4, 0, 0], [0, 0.6, 0, 0]]], np.float32)
    outputs = {"boxes": boxes, "scores": scores}

    def names(selection: Selection) -> list[str]:
        found = decode(outputs, card(Boxes()), (10, 10), selection=selection).boxes
        return [f"{box.name} {box.score:.1f}" for box in found]

    assert names(Selection()) == ["person 0.9", "car 0.6"]
    assert names(Selection(score_threshold=0.3)) == ["person 0.9", "car 0.6", "car 0.4"]
    assert names(Selection(classes=frozenset({1}))) == ["car 0.6"]


def test_the_best_of_the_wanted_classes() -> None:
    scores = {"y": np.array([[0.1, 0.2, 0.3, 0.4]], np.float32)}
    decoder = ClassVector(softmax=False, top_k=2)
    found = decode(scores, card(decoder), (10, 10), selection=Selection.of(0.15, "person, car", LABELS)).classes
    assert [each.name for each in found] == ["car"]


@pytest.mark.parametrize(
    ("region", "expected"),
    [
        ((0.0, 0.0, 1.0, 1.0), [0.05, 0.55, 0.85]),
        ((0.5, 0.0, 0.5, 1.0), [0.55, 0.85]),
        ((0.0, 0.5, 1.0, 0.2), [0.55]),
        ((0.9, 0.9, 0.1, 0.1), []),
    ],
)
def test_boxes_are_reported_whose_centre_lies_in_the_region(region: tuple[float, ...], expected: list[float]) -> None:
    boxes = np.array([[[0, 0, 1, 1], [5, 5, 6, 6], [8, 8, 9, 9]]], np.float32) / 10
    scores = np.array([[[0.9, 0, 0, 0], [0, 0.8, 0, 0], [0, 0.7, 0, 0]]], np.float32)
    selection = Selection.of(0.0, "", LABELS, region)
    found = decode({"boxes": boxes, "scores": scores}, card(Boxes()), (20, 40), selection=selection).boxes
    assert [(box.y + box.height / 2) / 20 for box in found] == pytest.approx(expected)
    assert [(box.x + box.width / 2) / 40 for box in found] == pytest.approx(expected)


@pytest.mark.parametrize(
    "region", [(), (0.0, 0.0, 1.0), (0.5, 0.0, 0.6, 1.0), (-0.1, 0.0, 0.5, 1.0), (0.0, 0.0, 0.0, 1.0)]
)
def test_a_region_that_is_no_part_of_a_frame_is_refused(region: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="as shares of the picture"):
        Selection.of(0.0, "", LABELS, region)
