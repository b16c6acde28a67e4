# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What two machines and the link between them take for a network's operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cacheinf_ros.engine.cost import CostModel
from cacheinf_ros.engine.cost.model import POINTS
from cacheinf_ros.offload.planning.workload import Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The way between robot and server, each direction for itself (full duplex).

    Attributes:
        mbit_s: 10**6 bits per second in each direction.
        delay_ms: from the sender to the receiver, of the smallest message.
    """

    mbit_s: float
    delay_ms: float = 1.0

    @property
    def bytes_per_ms(self) -> float:
        """Of payload."""
        return self.mbit_s * 125.0


def profile(names: Sequence[str], cost: CostModel) -> Numbers:
    """float64 [operators, points]: milliseconds of each operator, given by its output, at :data:`POINTS`."""
    took = np.zeros((len(names), len(POINTS)))
    for i, name in enumerate(names):
        if name in cost.curves:
            took[i] = cost.curves[name].predict_all(np.array(POINTS)) / 1e3
    return took


def at_share(took: Numbers, share: Numbers) -> Numbers:
    """float64 [operators]: milliseconds of these shares of the operators' pixels, by a :func:`profile`."""
    return np.array([np.interp(part, POINTS, curve) for part, curve in zip(share, took, strict=True)])
