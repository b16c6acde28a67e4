# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Scenes that objects enter, seen by a perfect detector: none is missed, whether the picture was empty or busy."""

import cv2
import numpy as np
import pytest

from cacheinf_ros.engine.decisions import BoxDecisions, SoftBoxes
from cacheinf_ros.graph.card import ModelCard
from cacheinf_ros.graph.decoder_configs import Boxes
from cacheinf_ros.pipeline.answer_holder import AnswerHolder
from cacheinf_ros.pipeline.newcomers import Newcomers, moves

SIZE = (128, 160)
EMPTY = 100  # frames
FRAMES = 136
SIDE, CONTRAST = 12, 60  # pixels, grey levels
COMES = (EMPTY, EMPTY + 30)
TASK = BoxDecisions(ModelCard(name="boxes", input_size=SIZE, decoder=Boxes()))


def objects(time: int) -> list[tuple[int, int]]:
    """Return (x, y) of the objects that are there: the first moves, the second stays."""
    return [(20 + 2 * (time - COMES[0]), 20), (100, 80)][: sum(time >= comes for comes in COMES)]


def decided(time: int) -> SoftBoxes:
    places = objects(time)
    return SoftBoxes(
        boxes=np.array([(x, y, SIDE, SIDE) for x, y in places], np.float32).reshape(-1, 4),
        classes=np.arange(len(places)),
        weights=np.ones(len(places), np.float32),
    )


@pytest.mark.parametrize("noise", [0, 5])
@pytest.mark.parametrize("light", [0.0, 0.15])
def test_nothing_that_comes_is_missed_for_longer_than_one_frame(noise: float, light: float) -> None:
    rng = np.random.default_rng(1)
    empty = cv2.GaussianBlur(rng.integers(30, 200, (*SIZE, 3), dtype=np.uint8), (0, 0), 6).astype(np.float32)
    holder, computed, known, missed = AnswerHolder(TASK, SIZE, 0.02), [], 0, 0
    for time in range(FRAMES):
        picture = empty * (1 + light * np.sin(2 * np.pi * time / 400))
        for x, y in objects(time):
            picture[y : y + SIDE, x : x + SIDE] += CONTRAST
        image = np.clip(picture + rng.normal(0, noise, picture.shape), 0, 255).astype(np.uint8)
        if not holder.stands(image):
            holder.computed(decided(time))
            computed.append(time)
            known = len(objects(time))
        missed = missed + 1 if known < len(objects(time)) else 0
        assert missed <= 1, time
    assert len([time for time in computed if 24 <= time < EMPTY]) < 20  # the empty part is held


PLACES = (40, 50)
SMALL, NOISE = 30, 16  # grey levels


def at(row: int, column: int, change: int) -> np.ndarray:
    """Make differences of a picture in which 5 x 5 places change, and the others by what counts as noise."""
    difference = np.random.default_rng(row).integers(0, NOISE + 1, PLACES).astype(np.uint8)
    difference[row : row + 5, column : column + 5] = change
    return difference


def busy() -> Newcomers:
    """Make one that has seen something move along the lower edge, by much more than anything else."""
    newcomers = Newcomers()
    for column in range(0, 45, 5):
        newcomers.see(at(35, column, 200))
    return newcomers


def test_less_than_what_moves_elsewhere_is_new_where_nothing_moved() -> None:
    assert busy().see(at(2, 2, SMALL))


@pytest.mark.parametrize(
    "difference",
    [
        pytest.param(at(2, 2, NOISE), id="noise"),
        pytest.param(at(28, 20, 180), id="near what moved by more"),
        pytest.param(np.full(PLACES, SMALL, np.uint8), id="all over the picture"),
    ],
)
def test_what_is_not_new(difference: np.ndarray) -> None:
    assert not busy().see(difference)


def test_what_moved_is_forgotten_after_a_while() -> None:
    newcomers = busy()
    assert not newcomers.see(at(35, 20, SMALL))
    for _ in range(150):  # 200 times 0.98 to the power of 150 is less than a tenth of 200
        newcomers.see(at(2, 2, 0))
    assert newcomers.see(at(35, 20, SMALL))


def test_a_stream_that_began_anew_remembers_nothing() -> None:
    newcomers = busy()
    newcomers.forget()
    assert not newcomers.see(at(2, 2, SMALL))


def test_a_picture_moves_where_more_than_a_tenth_of_it_changes() -> None:
    difference = np.zeros((10, 10), np.uint8)
    difference[0] = 17  # ten of a hundred places
    assert not moves(difference)
    difference[1, 0] = 17
    assert moves(difference)
    assert not moves(np.full((10, 10), 16, np.uint8))  # noise
