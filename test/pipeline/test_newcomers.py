# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""An empty scene into which objects come, seen by a perfect detector: calibrated on the empty part, none is missed."""

import cv2
import numpy as np
import pytest

from cacheinf_ros.engine.decisions.box_decisions import BoxDecisions, SoftBoxes
from cacheinf_ros.graph.card import ModelCard
from cacheinf_ros.graph.decoder_configs import Boxes
from cacheinf_ros.pipeline.answer_holder import AnswerHolder

SIZE = (128, 160)
EMPTY = 100  # frames
FRAMES = 136
SIDE, CONTRAST = 12, 60  # pixels, grey levels
COMES = (EMPTY, EMPTY + 30)
TASK = BoxDecisions(ModelCard(name="boxes", input_size=SIZE, decoder=Boxes()))


def objects(time: int) -> list[tuple[int, int]]:
    """(x, y) of those that are there: the first moves, the second stays."""
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
