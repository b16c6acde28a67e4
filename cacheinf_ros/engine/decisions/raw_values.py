# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Decisions where outputs cannot be interpreted: an answer is as right as its values are near the consensus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.engine.decisions.score import Score
from cacheinf_ros.engine.decisions.task import Outputs
from cacheinf_ros.engine.following import move_output

Values = list[NDArray[np.float32]]
Size = tuple[int, int]


class RawValues:
    """Judges the outputs themselves: an answer is right to the share 1 - NRMSE, at least 0."""

    def __init__(self, deviations: Sequence[float], input_size: Size) -> None:
        """Take the outputs' standard deviations over varied images."""
        self._deviations = [max(float(value), float(np.finfo(np.float32).tiny)) for value in deviations]
        self._input_size = input_size

    def read(self, outputs: Outputs, image_size: Size, motion: Motion | None = None) -> Values:
        """Implement :meth:`Task.read`."""
        moved = (
            value if motion is None else move_output(value, motion, self._input_size) for value in outputs.values()
        )
        return [np.array(value, np.float32) for value in moved]

    def presence(self, decision: Values) -> float:
        """Implement :meth:`Task.presence`."""
        return 1.0

    def consensus(self, window: Sequence[Values], index: int) -> Values:
        """Return the mean of the outputs over the frames."""
        return [np.mean(parts, axis=0, dtype=np.float32) for parts in zip(*window, strict=True)]

    def score(self, answer: Values, consensus: Values, before: Values | None) -> Score:
        """Score one decision per frame; where the values move cannot be told."""
        pairs = zip(answer, consensus, self._deviations, strict=True)
        error = max(_rms(ours - agreed) / deviation for ours, agreed, deviation in pairs)
        return Score(right=max(0.0, 1.0 - error), total=1.0)


def _rms(values: NDArray[Any]) -> float:
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float32))))
