# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A detector with YOLOv8s's widths, depths and operators and random weights, up to its raw heads: for timing only."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_WIDTHS = (32, 64, 128, 256, 512)  # widths of v8s, at strides 2, 4, 8, 16, 32
_DEPTHS = (1, 2, 2, 1)
_CLASSES, _BOX_VALUES = 80, 64


def conv(inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> nn.Sequential:
    """Build a convolution that keeps the size at stride 1, with its norm and SiLU."""
    layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.SiLU())


class C2f(nn.Module):
    """YOLOv8's C2f block: half of the channels goes through a chain of bottlenecks, whose outputs are all kept."""

    def __init__(self, inputs: int, outputs: int, depth: int, *, adds: bool) -> None:
        super().__init__()
        half, self._adds = outputs // 2, adds
        self.first, self.last = conv(inputs, outputs), conv((2 + depth) * half, outputs)
        self.inner = nn.ModuleList(nn.Sequential(conv(half, half, 3), conv(half, half, 3)) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        """Compute [1, outputs, height, width]."""
        parts = list(self.first(x).chunk(2, 1))
        for inner in self.inner:
            made = inner(parts[-1])
            parts.append(parts[-1] + made if self._adds else made)
        return self.last(torch.cat(parts, 1))


class Pyramid(nn.Module):
    """YOLOv8's SPPF block: a chain of max poolings, whose outputs are concatenated."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.last = conv(channels, channels // 2), conv(2 * channels, channels)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Compute [1, channels, height, width]."""
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.last(torch.cat(parts, 1))


class _Head(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        boxes, classes = max(16, _WIDTHS[2] // 4, _BOX_VALUES), max(_WIDTHS[2], _CLASSES)
        self.boxes = nn.Sequential(conv(channels, boxes, 3), conv(boxes, boxes, 3), nn.Conv2d(boxes, _BOX_VALUES, 1))
        self.classes = nn.Sequential(
            conv(channels, classes, 3), conv(classes, classes, 3), nn.Conv2d(classes, _CLASSES, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.boxes(x), self.classes(x)], 1)


class Yolo8s(nn.Module):
    """YOLOv8s up to its raw outputs at strides 8, 16 and 32: decoding takes little time and is left out."""

    def __init__(self) -> None:
        super().__init__()
        stem, *widths = _WIDTHS
        self.stem = conv(3, stem, 3, 2)
        self.down = nn.ModuleList(
            nn.Sequential(conv(a, b, 3, 2), C2f(b, b, depth, adds=True))
            for a, b, depth in zip(_WIDTHS, widths, _DEPTHS, strict=False)
        )
        self.pyramid, self.enlarge = Pyramid(widths[3]), nn.Upsample(scale_factor=2)
        _, fine, middle, coarse = widths
        self.up_middle = C2f(coarse + middle, middle, 1, adds=False)
        self.up_fine = C2f(middle + fine, fine, 1, adds=False)
        self.to_middle, self.down_middle = conv(fine, fine, 3, 2), C2f(fine + middle, middle, 1, adds=False)
        self.to_coarse, self.down_coarse = conv(middle, middle, 3, 2), C2f(middle + coarse, coarse, 1, adds=False)
        self.heads = nn.ModuleList(_Head(channels) for channels in (fine, middle, coarse))

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the raw heads of an image whose sides are multiples of 32."""
        levels, x = [], self.stem(image)
        for down in self.down:
            x = down(x)
            levels.append(x)
        _, fine, middle, coarse = levels
        coarse = self.pyramid(coarse)
        middle = self.up_middle(torch.cat([self.enlarge(coarse), middle], 1))
        fine = self.up_fine(torch.cat([self.enlarge(middle), fine], 1))
        middle = self.down_middle(torch.cat([self.to_middle(fine), middle], 1))
        coarse = self.down_coarse(torch.cat([self.to_coarse(middle), coarse], 1))
        return self.heads[0](fine), self.heads[1](middle), self.heads[2](coarse)
