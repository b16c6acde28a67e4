# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Measures how far cached outputs are from exact ones.

Every error is an NRMSE: a root mean square over an output, divided by the output's own standard deviation, which is how
far outputs of varied images lie from their mean. Without that, a network that hardly notices its input would always
look exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Outputs = Sequence[NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputScale:
    """The standard deviations of a model's outputs: an error divided by them is an NRMSE.

    Attributes:
        deviations: one per output, RMS deviation from the mean output.
    """

    deviations: tuple[float, ...]

    @classmethod
    def of(cls, varied: Sequence[Outputs]) -> OutputScale:
        """Measure the scale on the outputs of images that differ."""
        return cls(deviations=tuple(_deviation(values) for values in zip(*varied, strict=True)))

    def error(self, ours: Outputs, exact: Outputs) -> float:
        """Return the largest NRMSE among the outputs."""
        pairs = zip(ours, exact, self.deviations, strict=True)
        return max(rms_difference(a, b) / deviation for a, b, deviation in pairs)


def rms_difference(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Compute the root mean square of the difference."""
    difference = np.subtract(first, second, dtype=np.float32)
    return float(np.sqrt(np.mean(np.square(difference, dtype=np.float64))))


def _deviation(values: Outputs) -> float:
    stacked = np.stack(values).astype(np.float64)
    deviation = float(np.sqrt(np.mean(np.square(stacked - stacked.mean(axis=0)))))
    return deviation or float(np.finfo(np.float32).tiny)
