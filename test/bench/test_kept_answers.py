# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Answers of dense engines are read as they were stored, and only for the measurement that they belong to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from cacheinf_ros.bench.kept_answers import KeptAnswer, KeptAnswers
from cacheinf_ros.engine.decisions import SoftBoxes, Values
from cacheinf_ros.graph import load_model

IMAGES = [np.zeros((4, 6, 3), np.uint8)]


def test_every_kind_of_decision_comes_back(tmp_path: Path) -> None:
    kept = KeptAnswers(tmp_path, load_model("scenenet", input_size=(96, 128)), IMAGES, "a")
    boxes = SoftBoxes(
        boxes=np.ones((2, 4), np.float32), classes=np.array([3, 1]), weights=np.array([0.5, 1.0], np.float32)
    )
    poses = replace(boxes, key_points=np.ones((2, 17, 3), np.float32))
    classes = np.array([[1, 2]], np.uint8)
    values = Values(outputs=(np.ones((1, 2), np.float32), np.zeros(3, np.float32)), variations=(0.5, 0.0))
    decisions = {"boxes": boxes, "poses": poses, "map": classes, "values": values}
    kept.write(5, {name: KeptAnswer(decision=decision, took_ms=2.5) for name, decision in decisions.items()})
    found = kept.read(5)
    assert all(found[name].took_ms == 2.5 for name in decisions)
    for name in ("boxes", "classes", "weights"):
        np.testing.assert_array_equal(getattr(found["boxes"].decision, name), getattr(boxes, name))
    assert found["boxes"].decision.key_points is None and found["poses"].decision.masks is None
    np.testing.assert_array_equal(found["poses"].decision.key_points, poses.key_points)
    np.testing.assert_array_equal(found["map"].decision, classes)
    back = found["values"].decision
    assert back.variations == values.variations and len(back.outputs) == 2
    for ours, expected in zip(back.outputs, values.outputs, strict=True):
        np.testing.assert_array_equal(ours, expected)
    assert not kept.read(4)
    kept.forget()
    assert not kept.read(5)


def test_other_frames_and_settings_are_never_mixed(tmp_path: Path) -> None:
    model = load_model("scenenet", input_size=(96, 128))
    KeptAnswers(tmp_path, model, IMAGES, "a").write(0, {})
    answers = {"dense": KeptAnswer(decision=np.zeros((1, 1), np.uint8), took_ms=1.0)}
    KeptAnswers(tmp_path, model, IMAGES, "a").write(0, answers)
    assert KeptAnswers(tmp_path, model, IMAGES, "a").read(0)
    assert not KeptAnswers(tmp_path, model, IMAGES, "b").read(0)
    assert not KeptAnswers(tmp_path, model, [IMAGES[0] + 1], "a").read(0)
    (file,) = tmp_path.rglob("*.npz")
    file.write_bytes(file.read_bytes()[:-1])
    assert not KeptAnswers(tmp_path, model, IMAGES, "a").read(0), "a damaged file counts as not there"
