# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Small networks as workloads of a robot and a server, with made-up costs."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from lowered import graph_of
from networks.shared_models import mixed_model
from torch import Tensor, nn

from cacheinf_ros.engine import Outdated
from cacheinf_ros.engine.cost.model import POINTS
from cacheinf_ros.engine.execution.active import middle
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.graph import load_model
from cacheinf_ros.offload.planning.plan_table import Machines
from cacheinf_ros.offload.planning.workload import Workload

MIXED = Workload(lay_out(mixed_model().graph))


@cache
def efficient() -> Workload:
    """Return EfficientNet's workload; loading it takes seconds, so only tests that need it do."""
    return Workload(lay_out(load_model("torchvision:efficientnet_b0", input_size=(96, 128)).graph))


def mixed() -> Workload:
    """Return :data:`MIXED`."""
    return MIXED


def surroundings(work: Workload, seed: int, speedup: float) -> Machines:
    rng = np.random.default_rng(seed)
    robot_ms = rng.lognormal(0, 1, (len(work.names), 1)) * np.array(POINTS) ** 0.8
    return Machines(robot_ms=robot_ms, server_ms=robot_ms / speedup)


class Chain(nn.Module):
    """Two operators on 10 rows of 4 pixels; 3, 2 and 1 channels. The second one reads ``reach`` rows beyond its own."""

    def __init__(self, reach: int = 0) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 2, 1)
        self.b = nn.Conv2d(2, 1, 2 * reach + 1, padding=reach)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.relu(self.a(x)))


class Branches(nn.Module):
    """An operator a, followed by b and c, whose results d adds up."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(3, 2, 1), nn.Conv2d(2, 1, 3, padding=1), nn.Conv2d(2, 1, 5, padding=2)

    def forward(self, x: Tensor) -> Tensor:
        a = torch.relu(self.a(x))
        return torch.maximum(self.b(a), self.c(a))


def workload(module: nn.Module) -> Workload:
    return Workload(lay_out(graph_of(module, (10, 4))))


def outdated(work: Workload, changed: float, server: float | None = None) -> Outdated:
    """Mark this share of the input as changed, around its middle; for the server's copy optionally another share."""
    masks = []
    for share in (changed, changed if server is None else server):
        mask = np.zeros(work.activity.size, np.uint8)
        mask[middle(work.activity.size, share)] = 1
        masks.append(mask)
    return Outdated(changed=masks[0], robot=masks[0], server=masks[1])
