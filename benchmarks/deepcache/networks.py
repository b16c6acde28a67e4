# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The five networks of table 3, with random weights: what they take does not depend on those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

import torch
from torch import nn

from cacheinf_ros.graph import Model, load_model


class _Steering(nn.Module):
    """Twice the arc tangent of one value: what the layers before it say, as an angle in radians."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * torch.atan(x)


def _dense(widths: Sequence[int]) -> list[nn.Module]:
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return layers[:-1]


def alexnet() -> nn.Module:
    """Krizhevsky et al. (2012): 227 x 227, in two groups, with normalisation across channels."""
    return nn.Sequential(
        nn.Conv2d(3, 96, 11, 4), nn.ReLU(), nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2),
        nn.Conv2d(96, 256, 5, padding=2, groups=2), nn.ReLU(), nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2),
        nn.Conv2d(256, 384, 3, padding=1), nn.ReLU(), nn.Conv2d(384, 384, 3, padding=1, groups=2), nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1, groups=2), nn.ReLU(), nn.MaxPool2d(3, 2),
        *_dense((256 * 6 * 6, 4096, 4096, 101)),
    )  # fmt: skip


def yolo() -> nn.Module:
    """Redmon et al. (2016), the fast variant of eight convolutions: 448 x 448, 20 classes in 7 x 7 cells."""
    layers: list[nn.Module] = []
    channels = 3
    for number, width in enumerate((16, 32, 64, 128, 256, 512, 1024, 256)):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.LeakyReLU(0.1)]
        layers += [nn.MaxPool2d(2)] if number < 6 else []
        channels = width
    return nn.Sequential(*layers, *_dense((256 * 7 * 7, 1470)))


def dave() -> nn.Module:
    """Bojarski et al. (2016): 66 x 200, one steering angle."""
    convolutions = ((3, 24, 5, 2), (24, 36, 5, 2), (36, 48, 5, 2), (48, 64, 3, 1), (64, 64, 3, 1))
    layers = [part for c in convolutions for part in (nn.Conv2d(*c), nn.ReLU())]
    return nn.Sequential(*layers, *_dense((64 * 18, 1164, 100, 50, 10, 1)), _Steering())


NETWORKS: Mapping[str, tuple[str, tuple[int, int]]] = MappingProxyType(
    {
        "alexnet": (f"{__file__}:alexnet", (227, 227)),
        "googlenet": ("torchvision:googlenet", (224, 224)),
        "resnet50": ("torchvision:resnet50", (224, 224)),
        "yolo": (f"{__file__}:yolo", (448, 448)),
        "dave": (f"{__file__}:dave", (66, 200)),
    }
)
"""Reference and input size (height, width) of each, in the order of table 3: REC_1 to REC_3, DET and DRV."""


def load_network(name: str) -> Model:
    """Load one of :data:`NETWORKS`."""
    reference, size = NETWORKS[name]
    torch.manual_seed(0)
    return load_model(reference, input_size=size)
