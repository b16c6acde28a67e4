# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How long operators take on this machine, and whether a frame is better computed with the cache or densely."""

from cacheinf_ros.engine.cost.measure import load_or_measure
from cacheinf_ros.engine.cost.model import POINTS, CostModel, Curve
from cacheinf_ros.engine.cost.switch import DenseSwitch

__all__ = [
    "POINTS", "CostModel", "Curve", "DenseSwitch", "load_or_measure",
]  # fmt: skip
