# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The judge of answers: for how long an answer lacks objects, and how well true objects are found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.bench.judge import Judge
from cacheinf_ros.bench.missed import longest_miss
from cacheinf_ros.bench.truth_score import TruthClasses, TruthScore
from cacheinf_ros.engine.decisions import BoxDecisions, SoftBoxes
from cacheinf_ros.engine.decisions.class_maps import ClassMaps
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.graph import ModelCard
from cacheinf_ros.graph.decoder_configs import Centers
from cacheinf_ros.sources import TrueObject

LEFT, RIGHT = (10.0, 10.0, 20.0, 20.0), (60.0, 10.0, 20.0, 20.0)
LABELS = ("cat", "dog", "bird")


def seen(*boxes: tuple[float, float, float, float], class_id: int = 0, weight: float = 1.0) -> SoftBoxes:
    return SoftBoxes(
        boxes=np.array(boxes, np.float32).reshape(-1, 4),
        classes=np.full(len(boxes), class_id, np.int64),
        weights=np.full(len(boxes), weight, np.float32),
    )


def moved(x: float) -> tuple[float, float, float, float]:
    return (LEFT[0] + x, *LEFT[1:])


def test_the_longest_of_several_misses_counts() -> None:
    expected = [seen(LEFT, RIGHT)] * 7
    answers = [seen(LEFT), seen(), seen(RIGHT), seen(LEFT, RIGHT), seen(RIGHT), seen(RIGHT), seen(LEFT, RIGHT)]
    assert longest_miss(expected, answers) == 2
    assert longest_miss(expected, [None] * 7) == 7
    assert longest_miss(expected, expected) == 0


def test_a_missed_object_is_followed_where_it_moves() -> None:
    assert longest_miss([seen(moved(4.0 * index)) for index in range(6)], [seen()] * 6) == 6
    # an object that is somewhere else is another one
    assert longest_miss([seen(LEFT), seen(RIGHT), seen(LEFT)], [seen()] * 3) == 1


def test_what_counts_in_part_is_seen_but_need_not_be() -> None:
    assert longest_miss([seen(LEFT)], [seen(LEFT, weight=0.1)]) == 0
    assert longest_miss([seen(LEFT, weight=0.4)], [seen()]) == 0
    assert longest_miss([seen(LEFT)], [seen(LEFT, class_id=1)]) == 1


@given(st.lists(st.booleans(), max_size=40))
def test_it_is_the_longest_run(answered: list[bool]) -> None:
    text = "".join("s" if each else "-" for each in answered)
    answers = [seen(LEFT) if each else seen() for each in answered]
    assert longest_miss([seen(LEFT)] * len(answered), answers) == max(map(len, text.split("s")))


def truly(box: tuple[float, float, float, float], label: str = "") -> TrueObject:
    return TrueObject(label=label, x=box[0], y=box[1], width=box[2], height=box[3])


def test_objects_are_found_as_what_they_are() -> None:
    classes = TruthClasses(LABELS)
    both = [truly(LEFT, "dog"), truly(RIGHT, "bird")]
    found = classes.score(seen(moved(5.0), RIGHT, class_id=1), both)
    assert found == TruthScore(objects=2, found=1, overlap=pytest.approx(0.6))
    assert found.report() == {"objects": 2, "recall": 0.5, "iou": 0.3, "precision": None, "f1": None}
    assert classes.score(seen(LEFT, class_id=1, weight=0.4), both).found == 0  # below the threshold
    assert classes.score(None, both) == TruthScore(objects=2)
    assert classes.score(seen(LEFT), [truly(LEFT, "horse")]) == TruthScore()  # the model has no such class
    assert TruthScore().report()["recall"] is None


def test_boxes_are_right_or_not_where_every_object_is_known() -> None:
    """Of cats and horses every object is marked; a dog may be there that nobody marked."""
    classes = TruthClasses(LABELS, marked=("cat", "horse"))
    objects = [truly(LEFT, "cat"), truly(RIGHT, "horse")]
    found = classes.score(seen(LEFT, RIGHT, moved(2.0)), objects)  # a cat, a cat too many, and that cat once more
    assert found.report() == {"objects": 1, "recall": 1.0, "iou": 1.0, "precision": 0.3333, "f1": 0.5}
    assert classes.score(seen(RIGHT, class_id=1), objects).report()["f1"] == 0.0
    assert classes.score(seen(RIGHT, class_id=1), ()) == TruthScore()
    assert classes.score(seen(RIGHT), ()).report()["precision"] == 0.0
    assert classes.score(seen(RIGHT, weight=0.4), ()) == TruthScore()  # below the threshold
    assert classes.score(None, objects).report() == {
        "objects": 1, "recall": 0.0, "iou": 0.0, "precision": None, "f1": 0.0,
    }  # fmt: skip
    assert (classes.score(None, objects) + classes.score(seen(LEFT), objects)).report()["f1"] == 0.6667


def test_masks_are_of_the_classes_that_the_user_names() -> None:
    objects = [truly(LEFT)]
    assert TruthClasses(LABELS).score(seen(LEFT, class_id=2), objects).found == 1
    assert TruthClasses(LABELS, "cat, dog").score(seen(LEFT, class_id=2), objects).found == 0
    assert TruthClasses(LABELS, "cat, bird").score(seen(LEFT, class_id=2), objects).found == 1
    with pytest.raises(ConfigError, match="truth_class 'birt': the model has no such class; did you mean bird"):
        TruthClasses(LABELS, "birt")


def test_no_answer_is_no_right_one() -> None:
    task = BoxDecisions(ModelCard(name="test", factory="test", input_size=(96, 128), decoder=Centers(), labels=LABELS))
    judge = Judge(
        task=task, agreed=[seen(LEFT)] * 4, objects=[(truly(LEFT),), None, None, ()], classes=TruthClasses(LABELS)
    )
    assert judge.consensus([None, seen(LEFT), seen(LEFT), seen(LEFT)])["whole"] == pytest.approx(6 / 8)
    judged = judge.judge([seen(LEFT)] * 4, [None, *[seen(LEFT)] * 3], [None, 0, 1, 2])
    assert judged["missed_frames"] == 0 and judged["frames_behind"] == 1.0
    rest = {"precision": None, "f1": None}
    assert judged["truth"] == {"objects": 1, "recall": 1.0, "iou": 1.0, **rest}
    assert judged["truth_streaming"] == {"objects": 1, "recall": 0.0, "iou": 0.0, **rest}


def test_false_alarms_count_where_nothing_is_there() -> None:
    task = BoxDecisions(ModelCard(name="test", factory="test", input_size=(96, 128), decoder=Centers(), labels=LABELS))
    judge = Judge(task=task, agreed=[seen()] * 2, objects=[(), ()], classes=TruthClasses(LABELS, marked=LABELS))
    assert judge.truth([seen(), seen(LEFT)]) == {"objects": 0, "recall": None, "iou": None, "precision": 0.0, "f1": 0.0}
    assert replace(judge, classes=TruthClasses(LABELS)).truth([seen(), seen(LEFT)]) is None


def test_class_maps_have_no_objects() -> None:
    maps = [np.zeros((2, 2), np.uint8)] * 2
    judge = Judge(task=ClassMaps("scores", (2, 2)), agreed=maps, objects=[(), ()], classes=TruthClasses(LABELS))
    judged = judge.judge(maps, [None, maps[0]], [None, 0])
    assert (judged["missed_frames"], judged["truth"], judged["streaming"]["whole"]) == (None, None, 0.5)


def test_class_maps_are_compared_with_drawn_ones() -> None:
    """Both classes share one of two pixels without delay; streaming, no answer has come to the drawn frame."""
    maps = [np.array([[0, 1], [0, 1]], np.uint8)] * 2
    drawn = np.array([[0, 1], [1, 255]], np.uint8)
    judge = Judge(
        task=ClassMaps("scores", (2, 2)), agreed=maps, objects=[None, None], classes=TruthClasses(LABELS),
        maps=[drawn, None],
    )  # fmt: skip
    judged = judge.judge(maps, [None, maps[0]], [None, 0])
    assert (judged["truth"], judged["truth_streaming"]) == ({"mean_iou": 0.5}, {"mean_iou": 0.0})
