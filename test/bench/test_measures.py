# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Measures that are taken frame by frame, on outputs written by hand."""

import numpy as np
import pytest

from cacheinf_ros.bench.answer import Answer
from cacheinf_ros.bench.measures import Comparison, MeasuredFrame, Measures
from cacheinf_ros.bench.output_errors import ErrorScale
from cacheinf_ros.graph import ModelCard
from cacheinf_ros.graph.decoder_configs import Centers
from cacheinf_ros.sources import open_source

CARD = ModelCard(name="test", factory="test", input_size=(2, 2), labels=("road", "rest"))
UNSAID = ModelCard(name="test", factory="test", input_size=(2, 2))
CHANGED = np.array([[True, False], [False, False]])
SCALE = ErrorScale([[np.zeros((1, 2, 2, 2))], [np.full((1, 2, 2, 2), 2.0)]])  # a standard deviation of 1


def answer(first: float, second: float = 0.0) -> Answer:
    """Make an answer of two classes: class 0 has ``first``, ``second`` in the upper row, 0.5 below; class 1 has 1."""
    heat = np.array([[first, second], [0.5, 0.5]])
    return Answer({"output": np.stack([heat, np.ones((2, 2))])[None].astype(np.float32)}, CARD, (2, 2))


def frame(ours: Answer, composed: Answer, exact: Answer, refreshed: bool = False) -> MeasuredFrame:
    return MeasuredFrame(ours=ours, on_composed=composed, on_frame=exact, changed=CHANGED, refreshed=refreshed)


def test_each_error_compares_its_own_pair() -> None:
    measures = Measures(SCALE)
    measures.see(frame(answer(0), answer(0), answer(0), refreshed=True))
    measures.add(frame(answer(1), answer(2), answer(4)))
    report = measures.report()
    rms = 1 / np.sqrt(8)  # the error of a difference of 1 in one of eight values
    expected = {"engine_error": 1, "matching_error": 2, "output_error": 3, "flicker": 4}
    assert {name: report[name]["mean"] for name in expected} == pytest.approx(
        {name: times * rms for name, times in expected.items()}
    )
    assert report["missed_change"] == pytest.approx(0.5)  # (2 - 1) / (2 - 0)


def test_errors_over_time_are_means_of_a_hundred_frames() -> None:
    measures = Measures(SCALE)
    for index in range(150):
        measures.add(frame(answer(1 if index < 100 else 3), answer(0), answer(0)))
    assert measures.report()["engine_error_over_time"] == pytest.approx([1 / np.sqrt(8), 3 / np.sqrt(8)])


def test_agreement_in_the_changed_area_and_in_all() -> None:
    measures = Measures(SCALE)
    measures.see(frame(answer(0), answer(0), answer(0), refreshed=True))
    measures.add(frame(answer(0), answer(4), answer(4)))
    assert measures.report()["agreement"] == {"engine": 0.75, "changed": 0.0, "output": 0.75}
    measures.add(frame(answer(4), answer(4), answer(4, 4)))
    assert measures.report()["agreement"] == {"engine": 0.875, "changed": 0.5, "output": 0.75}


def test_a_refreshed_frame_is_not_changed_area_and_makes_nothing_stale() -> None:
    measures = Measures(SCALE)
    measures.add(frame(answer(0), answer(0), answer(0), refreshed=True))
    report = measures.report()
    assert report["agreement"]["changed"] is None and report["missed_change"] is None
    measures.add(frame(answer(2), answer(3), answer(3)))
    measures.add(frame(answer(6), answer(6), answer(6), refreshed=True))
    measures.add(frame(answer(6), answer(7), answer(7)))
    # it misses 1 of 3, then 1 of 1
    assert measures.report()["missed_change"] == pytest.approx(np.sqrt((1 + 1) / (9 + 1)))


def test_an_audit_makes_fresh() -> None:
    measures = Measures(SCALE)
    measures.see(frame(answer(0), answer(0), answer(0), refreshed=True))
    measures.refresh(answer(5))
    measures.add(frame(answer(5), answer(6), answer(6)))
    assert measures.report()["missed_change"] == pytest.approx(1.0)


def test_what_is_stale_is_a_copy() -> None:
    """Outputs are views into the cache, which the next frame overwrites, so the measures must copy them."""
    measures = Measures(SCALE)
    ours = answer(0)
    measures.see(frame(ours, answer(0), answer(0), refreshed=True))
    ours.values[0][:] = 9
    measures.add(frame(answer(1), answer(2), answer(2)))
    assert measures.report()["missed_change"] == pytest.approx(0.5)


def centers(*cells: tuple[int, int]) -> Answer:
    """Make the answer of a one-class detector that found an 8 x 8 box in each of these cells of 8 pixels."""
    output = np.zeros((1, 5, 4, 4), np.float32)
    output[0, 0] = -9
    for row, column in cells:
        output[0, :, row, column] = [3, 0.5, 0.5, 0, 0]
    card = ModelCard(name="test", factory="test", input_size=(32, 32), decoder=Centers())
    return Answer({"output": output}, card, (32, 32))


def test_detections_are_compared() -> None:
    comparison = Comparison(ErrorScale([[np.zeros((1, 5, 4, 4))], [np.ones((1, 5, 4, 4))]]))
    assert comparison.f1 is None and comparison.error is None
    comparison.add(centers((0, 0), (3, 3)), centers((0, 0), (3, 0)))
    assert comparison.f1 == pytest.approx(0.5)
    assert answer(0).detections is None


def test_detections_against_the_truth() -> None:
    truth = open_source("scene:fixed?size=96x128&frames=3").truth(2)
    scale = ErrorScale([[np.zeros((1, 5, 4, 4))], [np.ones((1, 5, 4, 4))]])
    measures = Measures(scale)
    measures.add(frame(centers((0, 0)), centers(), centers()), truth)
    assert measures.report()["f1_truth"] == {"cached": 0.0, "dense": 0.0}


def test_boxes_of_a_low_score_do_not_count() -> None:
    unsure = centers((1, 1))
    unsure.values[0][0, 0, 1, 1] = -0.2  # a score of 0.45, above the card's 0.4
    found = unsure.detections
    assert found is not None and len(found.boxes) == 0
    sure = centers((1, 1)).detections
    assert sure is not None and sure.boxes.tolist() == [[8, 8, 8, 8]]


def test_decisions_of_vectors_and_maps() -> None:
    assert Answer({"y": np.array([[0.1, 0.9]])}, CARD, (2, 2)).decisions.tolist() == [1]
    raw = CARD.changed(decoder={"kind": "raw"})
    assert Answer({"y": np.array([[0.1, 0.9]])}, raw, (2, 2)).decisions is None
    assert answer(4).decisions.tolist() == [[0, 1], [1, 1]]
    assert Answer({"y": np.zeros((1, 9, 4))}, CARD, (2, 2)).decisions is None
    assert Answer({"y": np.array([[[0, 1], [1, 2]]])}, UNSAID, (2, 2)).decisions.tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize("shape", [(1, 2), (1, 3), (1, 2, 2, 2), (1, 3, 2, 2)])
def test_few_channels_that_may_be_anything_decide_nothing(shape: tuple[int, ...]) -> None:
    """Two flows of nearly opposite directions may have the same largest component."""
    assert Answer({"y": np.ones(shape, np.float32)}, UNSAID, (2, 2)).decisions is None


def test_boxes_are_no_classes() -> None:
    assert centers((1, 1)).decisions is None
