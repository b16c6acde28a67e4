# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A pose network in the manner of KAPAO (McNally et al., ECCV 2022, arXiv 2111.08557), on the layers of YOLOv5 "s".

KAPAO finds poses as objects and keypoints as further objects of 18 classes (a person and 17 keypoints); what its
boxes hold beyond that are the 17 keypoints' positions. Weights are random. The statistics of the batch norms come from
photographs, so that activations neither vanish nor explode: fit to compare exact execution, not to find anybody.
"""

from __future__ import annotations

import cv2
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from cacheinf_ros.sources.scenes import Gallery, load_photographs

_ANCHORS = 3
_CLASSES = 18
_KEYPOINTS = 17
_WIDTHS = (32, 64, 128, 256, 512)
_CALIBRATION_SIDE = 256


def pose() -> nn.Module:
    """Build the network, untrained, with calibrated batch norms."""
    network = PoseNet()
    _calibrate(network)
    return network


class PoseNet(nn.Module):
    """The network, from [n, 3, height, width] to [n, 171, height / stride, width / stride] at stride 8, 16 and 32.

    A pixel has three boxes of 57 values: 4 of the box, 1 of its score, 18 of classes, 34 of keypoints. The sides of
    the image are multiples of 32.
    """

    def __init__(self) -> None:
        super().__init__()
        stem, second, small, medium, large = _WIDTHS
        self.start = nn.Sequential(Conv(3, stem, 6, 2), Conv(stem, second, 3, 2), Csp(second, second, 1))
        self.to_small = nn.Sequential(Conv(second, small, 3, 2), Csp(small, small, 2))
        self.to_medium = nn.Sequential(Conv(small, medium, 3, 2), Csp(medium, medium, 3))
        self.to_large = nn.Sequential(Conv(medium, large, 3, 2), Csp(large, large, 1), SpatialPyramid(large))
        self.large_lateral = Conv(large, medium, 1)
        self.medium_top_down = Csp(2 * medium, medium, 1, residual=False)
        self.medium_lateral = Conv(medium, small, 1)
        self.small_out = Csp(2 * small, small, 1, residual=False)
        self.small_down = Conv(small, small, 3, 2)
        self.medium_out = Csp(2 * small, medium, 1, residual=False)
        self.medium_down = Conv(medium, medium, 3, 2)
        self.large_out = Csp(2 * medium, large, 1, residual=False)
        values = _ANCHORS * (5 + _CLASSES + 2 * _KEYPOINTS)
        self.heads = nn.ModuleList(nn.Conv2d(width, values, 1) for width in (small, medium, large))

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        small = self.to_small(self.start(image))
        medium = self.to_medium(small)
        large = self.large_lateral(self.to_large(medium))
        # top down (a feature pyramid), then bottom up again (path aggregation)
        medium = self.medium_lateral(self.medium_top_down(torch.cat([_doubled(large), medium], 1)))
        small = self.small_out(torch.cat([_doubled(medium), small], 1))
        medium = self.medium_out(torch.cat([self.small_down(small), medium], 1))
        large = self.large_out(torch.cat([self.medium_down(medium), large], 1))
        maps = zip(self.heads, (small, medium, large), strict=True)
        return {f"stride{8 << i}": head(features) for i, (head, features) in enumerate(maps)}


class Conv(nn.Sequential):
    """A convolution, followed by batch norm and SiLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        padding = (kernel - 1) // 2
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False),
            nn.BatchNorm2d(outputs, eps=1e-3),
            nn.SiLU(inplace=True),
        )


class Bottleneck(nn.Module):
    """A pointwise and a 3x3 convolution, added to the input where ``residual``."""

    def __init__(self, channels: int, *, residual: bool) -> None:
        super().__init__()
        self.body = nn.Sequential(Conv(channels, channels, 1), Conv(channels, channels, 3))
        self.residual = residual

    def forward(self, features: Tensor) -> Tensor:
        return features + self.body(features) if self.residual else self.body(features)


class Csp(nn.Module):
    """A cross-stage partial block: half of the channels pass through bottlenecks, the other half around them."""

    def __init__(self, inputs: int, outputs: int, depth: int, *, residual: bool = True) -> None:
        super().__init__()
        half = outputs // 2
        bottlenecks = (Bottleneck(half, residual=residual) for _ in range(depth))
        self.through = nn.Sequential(Conv(inputs, half, 1), *bottlenecks)
        self.past = Conv(inputs, half, 1)
        self.merge = Conv(2 * half, outputs, 1)

    def forward(self, features: Tensor) -> Tensor:
        return self.merge(torch.cat([self.through(features), self.past(features)], 1))


class SpatialPyramid(nn.Module):
    """Spatial pyramid pooling: maxima over three window sizes, concatenated with the features themselves."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduce = Conv(channels, channels // 2, 1)
        self.pools = nn.ModuleList(nn.MaxPool2d(size, 1, size // 2) for size in (5, 9, 13))
        self.merge = Conv(channels * 2, channels, 1)

    def forward(self, features: Tensor) -> Tensor:
        reduced = self.reduce(features)
        return self.merge(torch.cat([reduced, *(pool(reduced) for pool in self.pools)], 1))


def _doubled(features: Tensor) -> Tensor:
    return functional.interpolate(features, scale_factor=2.0, mode="nearest")


@torch.no_grad()
def _calibrate(network: nn.Module) -> None:
    """Give the batch norms the statistics of photographs, a shift of 1, and a small gain where a residual is added.

    With the usual shift of 0 and gain of 1 such a network is chaotic: each layer amplifies rounding, to 1e-4 of the
    outputs at the end.
    """
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # the plain mean over the batches
            nn.init.constant_(module.bias, 1.0)
        elif isinstance(module, Bottleneck):
            nn.init.constant_(module.body[-1][1].weight, 0.2)
    side = (_CALIBRATION_SIDE, _CALIBRATION_SIDE)
    images = np.stack([cv2.resize(image, side)[..., ::-1] for image in load_photographs(Gallery.TRAIN)])
    network.train()(torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255)
    network.eval()
