# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Decisions where outputs cannot be interpreted: an answer is as right as its values are near the consensus."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.engine.decisions.score import Score
from cacheinf_ros.engine.decisions.task import Outputs
from cacheinf_ros.engine.following import is_map, move_output

Size = tuple[int, int]
_TOO_EXACT = 0.01  # share of an output's RMS below which no error matters: it may be constant on varied images
_TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Values:
    """The outputs for a frame, or what those for neighbouring frames agree on.

    Attributes:
        outputs: float32, in the model's order.
        variations: how far each output varies among the neighbouring frames, as RMS deviation from their mean; 0 for
            the outputs of a single frame.
    """

    outputs: tuple[NDArray[np.float32], ...]
    variations: tuple[float, ...]


class RawValues:
    """Judges the outputs themselves: an answer is right to the share 1 - NRMSE, at least 0.

    An output may be constant on varied images, as the presence of something that none of them shows. So the deviation
    that an error is divided by is never less than how much the output varies among the neighbouring frames.
    """

    least_right = 0.2  # errors of 1 and more all count alike
    tells_motion = False

    def __init__(self, deviations: Sequence[float], input_size: Size, *, most_values: int | None = None) -> None:
        """Take the outputs' standard deviations over varied images.

        Args:
            most_values: how many values of an output are looked at, about; of larger maps, only every n-th row and
                column is.
        """
        self._deviations = tuple(map(float, deviations))
        self._input_size = input_size
        self._most_values = most_values

    def read(self, outputs: Outputs, image_size: Size, motion: Motion | None = None) -> Values:
        """Implement :meth:`Task.read`."""
        moved = (
            value if motion is None else move_output(value, motion, self._input_size) for value in outputs.values()
        )
        read = tuple(np.array(self._some(value), np.float32) for value in moved)
        return Values(outputs=read, variations=(0.0,) * len(read))

    def presence(self, decision: Values) -> float:
        """Implement :meth:`Task.presence`."""
        return 1.0

    def consensus(self, window: Sequence[Values], index: int) -> Values:
        """Return the mean of the outputs over the frames."""
        stacks = [np.stack(parts) for parts in zip(*(values.outputs for values in window), strict=True)]
        agreed = tuple(np.asarray(stack.mean(axis=0)) for stack in stacks)
        variations = tuple(_rms(stack - mean) for stack, mean in zip(stacks, agreed, strict=True))
        return Values(outputs=agreed, variations=variations)

    def score(self, answer: Values, consensus: Values, before: Values | None) -> Score:
        """Score one decision per frame; where the values move cannot be told."""
        triples = zip(answer.outputs, consensus.outputs, self._scales(consensus), strict=True)
        errors = [_rms(ours - agreed) / scale for ours, agreed, scale in triples]
        right = max(0.0, 1.0 - max(errors)) if all(map(math.isfinite, errors)) else 0.0  # NaN is less than nothing
        return Score(right=right, total=1.0)

    def _scales(self, consensus: Values) -> list[float]:
        """Return for each output the error that makes an answer wrong."""
        of_outputs = zip(self._deviations, consensus.variations, consensus.outputs, strict=True)
        return [
            max(deviation, variation, _TOO_EXACT * _rms(agreed), _TINY) for deviation, variation, agreed in of_outputs
        ]

    def _some(self, values: NDArray[Any]) -> NDArray[Any]:
        """Pick as many values as are looked at.

        Of a map it takes every n-th row and column, of others every n-th along their longest axis.
        """
        most = self._most_values
        if most is None or values.size <= most:
            return values
        if is_map(values, self._input_size):
            step = math.ceil(math.sqrt(values.size / most))
            return values[..., ::step, ::step]
        longest = int(np.argmax(values.shape))
        return values.take(range(0, values.shape[longest], math.ceil(values.size / most)), axis=longest)


def _rms(values: NDArray[Any]) -> float:
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float32))))
