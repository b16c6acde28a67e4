# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""ESPNet (Mehta et al., ECCV 2018, arXiv 1803.06815): a segmentation network of efficient spatial pyramids.

The names of the modules are those of the authors' trained weights, which load into the network as they are. The
paper's figures give the rest: figure 1 the ESP module, figure 4 (d) the whole network.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_DILATIONS = (1, 2, 4, 8, 16)
_EPSILON = 1e-3


def espnet() -> nn.Module:
    """Build the paper's best network on Cityscapes, untrained: p = 2, q = 8, with the decoder."""
    return ESPNet(classes=20, p=2, q=8)


class ESPNet(nn.Module):
    """The whole network, from [n, 3, height, width] to logits [n, classes, height, width].

    The sides of the image must be multiples of 8.
    """

    def __init__(self, *, classes: int, p: int, q: int) -> None:
        super().__init__()
        self.encoder = Encoder(classes=classes, p=p, q=q)
        self.br = nn.BatchNorm2d(classes, eps=_EPSILON)
        self.up_l3 = nn.Sequential(_doubled(classes))
        self.level3_C = Plain(131, classes, 1)
        self.combine_l2_l3 = nn.Sequential(Normalised(2 * classes), Pyramid(2 * classes, classes, residual=False))
        self.up_l2 = nn.Sequential(_doubled(classes), Normalised(classes))
        self.conv = Activated(16 + classes, classes, 3)
        self.classifier = _doubled(classes)

    def forward(self, image: Tensor) -> Tensor:
        half, quarter, eighth = self.encoder(image)
        coarse = self.up_l3(self.br(self.encoder.classifier(eighth)))
        middle = self.up_l2(self.combine_l2_l3(torch.cat([self.level3_C(quarter), coarse], 1)))
        fine = self.conv(torch.cat([middle, half], 1))
        return self.classifier(fine)


class Encoder(nn.Module):
    """ESPNet-C, with features at 1/2, 1/4 and 1/8 of the image's size, of 16, 131 and 256 channels.

    Each level reads the image again, reduced by average pooling, and its own input beside its output.
    """

    def __init__(self, *, classes: int, p: int, q: int) -> None:
        super().__init__()
        self.level1 = Activated(3, 16, 3, stride=2)
        self.b1 = Normalised(16 + 3)
        self.level2_0 = DownPyramid(16 + 3, 64)
        self.level2 = nn.ModuleList(Pyramid(64, 64) for _ in range(p))
        self.b2 = Normalised(2 * 64 + 3)
        self.level3_0 = DownPyramid(2 * 64 + 3, 128)
        self.level3 = nn.ModuleList(Pyramid(128, 128) for _ in range(q))
        self.b3 = Normalised(2 * 128)
        self.classifier = Plain(2 * 128, classes, 1)
        self.reduce = nn.AvgPool2d(3, stride=2, padding=1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        image2 = self.reduce(image)
        image4 = self.reduce(image2)
        half = self.level1(image)
        start2 = end2 = self.level2_0(self.b1(torch.cat([half, image2], 1)))
        for module in self.level2:
            end2 = module(end2)
        quarter = self.b2(torch.cat([end2, start2, image4], 1))
        start3 = end3 = self.level3_0(quarter)
        for module in self.level3:
            end3 = module(end3)
        return half, quarter, self.b3(torch.cat([start3, end3], 1))


class Branches(nn.Module):
    """Parallel dilated convolutions, each added to the less dilated ones before it (reduce, split, transform, merge).

    The sums (the paper's hierarchical feature fusion) remove the grid that dilated convolutions leave.
    """

    def __init__(self, inputs: int, outputs: int, *, kernel: int, stride: int) -> None:
        super().__init__()
        width = outputs // len(_DILATIONS)
        first = outputs - width * (len(_DILATIONS) - 1)  # takes what the division leaves
        self.c1 = Plain(inputs, width, kernel, stride=stride)
        for dilation in _DILATIONS:
            branch = Plain(width, first if dilation == 1 else width, 3, dilation=dilation)
            self.add_module(f"d{dilation}", branch)

    def merged(self, features: Tensor) -> Tensor:
        """Merge the branches: [n, inputs, h, w] -> [n, outputs, h / stride, w / stride]."""
        reduced = self.c1(features)
        first, *others = (self.get_submodule(f"d{dilation}")(reduced) for dilation in _DILATIONS)
        sums = [others[0]]
        for branch in others[1:]:
            sums.append(sums[-1] + branch)
        return torch.cat([first, *sums], 1)


class Pyramid(Branches):
    """The ESP module, which keeps the size."""

    def __init__(self, inputs: int, outputs: int, *, residual: bool = True) -> None:
        super().__init__(inputs, outputs, kernel=1, stride=1)
        self.bn = Normalised(outputs)
        self.residual = residual

    def forward(self, features: Tensor) -> Tensor:
        merged = self.merged(features)
        return self.bn(features + merged if self.residual else merged)


class DownPyramid(Branches):
    """The ESP module that halves the size: its reduction is a strided instead of a pointwise convolution."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, kernel=3, stride=2)
        self.bn = nn.BatchNorm2d(outputs, eps=_EPSILON)
        self.act = nn.PReLU(outputs)

    def forward(self, features: Tensor) -> Tensor:
        return self.act(self.bn(self.merged(features)))


class Plain(nn.Module):
    """A convolution without bias that keeps the size, apart from its stride."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, dilation: int = 1) -> None:
        super().__init__()
        padding = dilation * (kernel // 2)
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, dilation, bias=False)

    def forward(self, features: Tensor) -> Tensor:
        return self.conv(features)


class Normalised(nn.Module):
    """Batch norm, followed by PReLU."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bn = nn.BatchNorm2d(channels, eps=_EPSILON)
        self.act = nn.PReLU(channels)

    def forward(self, features: Tensor) -> Tensor:
        return self.act(self.bn(features))


class Activated(Plain):
    """A convolution, followed by batch norm and PReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, stride: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride=stride)
        self.bn = nn.BatchNorm2d(outputs, eps=_EPSILON)
        self.act = nn.PReLU(outputs)

    def forward(self, features: Tensor) -> Tensor:
        return self.act(self.bn(self.conv(features)))


def _doubled(channels: int) -> nn.ConvTranspose2d:
    """Build a transposed convolution that doubles height and width."""
    return nn.ConvTranspose2d(channels, channels, 2, stride=2, bias=False)
