# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A network so small that a node with it starts as fast as torch does."""

import torch
from torch import nn


def tiny() -> nn.Module:
    """Build a network with five classes for frames of 48x64 pixels."""
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 5),
    )  # fmt: skip
    network.input_size = (48, 64)
    return network


def not_a_model() -> torch.Tensor:
    """Return a tensor, which model factories must not do."""
    return torch.zeros(3)
