# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The usual ways to save time without a cache: skip frames, or move the last output along with the picture.

They are given the time that the cached engine took. Work beside dense inference, such as estimating motion, is not
charged to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.bench.answer import Answer
from cacheinf_ros.cache_map import Motion
from cacheinf_ros.engine.following import is_map, move_output

Image = NDArray[np.uint8]
Shift = tuple[float, float]

_MOTION_WIDTH = 320  # pixels, of the image in which motion is estimated
_CONFIDENT = 0.1  # least response of a phase correlation whose shift is trusted


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Repeated:
    """The answers of both policies to a frame.

    Attributes:
        skipped: the last dense answer.
        warped: the last dense answer, moved with the picture; None where outputs are not maps.
    """

    skipped: Answer
    warped: Answer | None


class Skipping:
    """Runs dense inference as often as the cached engine's time allows, and gives the last answer in between.

    Attributes:
        computed: how many frames were computed.
    """

    def __init__(self, input_size: tuple[int, int]) -> None:
        """Begin without an answer; ``input_size``: (height, width) of the model's input, or of a picture in it."""
        self.computed = 0
        self._input_size = input_size
        self._budget_ms = 0.0
        self._kept: tuple[Image, Answer] | None = None

    def answer(self, image: Image, dense: Answer, *, cached_ms: float, dense_ms: float) -> Repeated:
        """Answer to the next frame.

        Args:
            image: what the answers are about, uint8 [height, width, 3].
            dense: the answer of dense inference to it.
            cached_ms: the cached engine's time for it.
            dense_ms: the mean time of dense inference.
        """
        self._budget_ms += cached_ms
        if self._kept is None or self._budget_ms >= dense_ms:
            # the first answer is free, as the frames are that fill the cache
            self._budget_ms = self._budget_ms - dense_ms if self._kept else 0.0
            self._kept = (image, dense)
            self.computed += 1
        before, kept = self._kept
        moves = all(is_map(each, self._input_size) for each in kept.values)
        return Repeated(skipped=kept, warped=_warped(kept, before, image, self._input_size) if moves else None)


def skipping(took_ms: Sequence[float], dense_ms: float, between_ms: float = 0.0) -> list[int]:
    """Return for each frame the last one that dense inference had the time to compute; the first is free.

    Args:
        took_ms: the time given for each frame.
        dense_ms: the time of dense inference.
        between_ms: the time of the work on every frame, whether it is computed or not.
    """
    answers, last, saved_ms = [], 0, 0.0
    for index, given_ms in enumerate(took_ms):
        saved_ms += given_ms - between_ms
        if index and saved_ms >= dense_ms:
            last, saved_ms = index, saved_ms - dense_ms
        answers.append(last)
    return answers


def estimate_shift(before: Image, now: Image) -> Shift:
    """Estimate the (dx, dy) from one picture to the other, as shares of width and height, by phase correlation.

    The shift is (0, 0) where the pictures have no clear one.
    """
    height, width = before.shape[:2]
    size = (min(width, _MOTION_WIDTH), max(1, height * min(width, _MOTION_WIDTH) // width))
    first, second = (
        cv2.cvtColor(cv2.resize(image, size, interpolation=cv2.INTER_AREA), cv2.COLOR_BGR2GRAY).astype(np.float64)
        for image in (before, now)
    )
    (dx, dy), response = cv2.phaseCorrelate(first, second, cv2.createHanningWindow(size, cv2.CV_64F))
    return (dx / size[0], dy / size[1]) if response >= _CONFIDENT else (0.0, 0.0)


def _warped(answer: Answer, before: Image, now: Image, input_size: tuple[int, int]) -> Answer:
    if before is now:
        return answer
    height, width = input_size
    dx, dy = estimate_shift(before, now)
    motion = Motion.translation(dx * width, dy * height)
    return answer.changed({name: move_output(value, motion, input_size) for name, value in answer.outputs.items()})
