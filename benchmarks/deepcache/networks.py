# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The five networks of table 3 and two more of figure 18, with random weights, which change neither time nor memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

import torch
from torch import nn

from cacheinf_ros.graph import Model, load_model


class _Steering(nn.Module):
    """Twice the arc tangent of one value: turns the output of the layers before it into an angle in radians."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * torch.atan(x)


def _dense(widths: Sequence[int]) -> list[nn.Module]:
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return layers[:-1]


def alexnet() -> nn.Module:
    """Build AlexNet, Krizhevsky et al. (2012): 227 x 227, in two groups, with normalisation across channels."""
    return nn.Sequential(
        nn.Conv2d(3, 96, 11, 4), nn.ReLU(), nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2),
        nn.Conv2d(96, 256, 5, padding=2, groups=2), nn.ReLU(), nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2),
        nn.Conv2d(256, 384, 3, padding=1), nn.ReLU(), nn.Conv2d(384, 384, 3, padding=1, groups=2), nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1, groups=2), nn.ReLU(), nn.MaxPool2d(3, 2),
        *_dense((256 * 6 * 6, 4096, 4096, 101)),
    )  # fmt: skip


def yolo() -> nn.Module:
    """Build the fast YOLO of Redmon et al. (2016): eight convolutions, 448 x 448, 20 classes in 7 x 7 cells."""
    layers: list[nn.Module] = []
    channels = 3
    for number, width in enumerate((16, 32, 64, 128, 256, 512, 1024, 256)):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.LeakyReLU(0.1)]
        layers += [nn.MaxPool2d(2)] if number < 6 else []
        channels = width
    return nn.Sequential(*layers, *_dense((256 * 7 * 7, 1470)))


def dave() -> nn.Module:
    """Build Dave, Bojarski et al. (2016): 66 x 200, one steering angle."""
    convolutions = ((3, 24, 5, 2), (24, 36, 5, 2), (36, 48, 5, 2), (48, 64, 3, 1), (64, 64, 3, 1))
    layers = [part for c in convolutions for part in (nn.Conv2d(*c), nn.ReLU())]
    return nn.Sequential(*layers, *_dense((64 * 18, 1164, 100, 50, 10, 1)), _Steering())


def _convolution(before: int, after: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(before, after, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(after), nn.ReLU()]


def mobilenet() -> nn.Module:
    """Build the first MobileNet, Howard et al. (2017), which the paper cites: 224 x 224, 1000 classes."""
    layers, channels = _convolution(3, 32, 3, 2), 32
    for width, stride in (
        (64, 1),
        (128, 2),
        (128, 1),
        (256, 2),
        (256, 1),
        (512, 2),
        *[(512, 1)] * 5,
        (1024, 2),
        (1024, 1),
    ):
        layers += _convolution(channels, channels, 3, stride, groups=channels) + _convolution(channels, width, 1)
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), *_dense((channels, 1000)))


NETWORKS: Mapping[str, tuple[str, tuple[int, int]]] = MappingProxyType(
    {
        "alexnet": (f"{__file__}:alexnet", (227, 227)),
        "googlenet": ("torchvision:googlenet", (224, 224)),
        "resnet50": ("torchvision:resnet50", (224, 224)),
        "yolo": (f"{__file__}:yolo", (448, 448)),
        "dave": (f"{__file__}:dave", (66, 200)),
    }
)
"""The reference and input size (height, width) of table 3's networks, in its order: REC_1 to REC_3, DET and DRV."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """A network for which the paper cites a publication, but states neither version nor size.

    Attributes:
        reference: the model's reference, see :func:`load_model`.
        assumed: the version and size that were assumed.
    """

    reference: str
    size: tuple[int, int]
    assumed: str


OTHERS: Mapping[str, Assumed] = MappingProxyType(
    {
        "mobilenet": Assumed(
            reference=f"{__file__}:mobilenet", size=(224, 224), assumed="version 1, full width, 224x224"
        ),
        "squeezenet": Assumed(reference="torchvision:squeezenet1_0", size=(224, 224), assumed="version 1.0, 224x224"),
    }
)
"""The networks of figure 18 in addition to :data:`NETWORKS`, as the publications that the paper cites describe them.

The figure's third one, DeepFace, is Wen et al. (2016) by its citation, which is another network than the one of
that name.
"""


def load_network(name: str) -> Model:
    """Load one of :data:`NETWORKS` or :data:`OTHERS`."""
    reference, size = NETWORKS[name] if name in NETWORKS else (OTHERS[name].reference, OTHERS[name].size)
    torch.manual_seed(0)
    return load_model(reference, input_size=size)
