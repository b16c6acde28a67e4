# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""scenenet: a small detector of the moving objects in built-in scenes.

A fully convolutional network in the manner of CenterNet ("Objects as Points", 2019): one heat map per class whose
peaks are the objects' centres, and at each peak the centre's offset and the box's size. It consists of local
operators only, and an output depends on 111 x 111 pixels of the input, so that a cache can serve most of it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

# the labels of the model card, cards/scenenet.yaml
_CLASSES = 5
_CHANNELS = (24, 40, 80, 64)
# a heat map starts near the share of pixels that are centres, or the first steps only learn "nothing anywhere"
_INITIAL_LOGIT = -4.0


def scenenet() -> nn.Module:
    """Build the network, untrained."""
    return SceneNet(classes=_CLASSES)


class SceneNet(nn.Module):
    """A detector, [n, 3, height, width] -> [n, classes + 4, height / 8, width / 8].

    Channels of the output: heat map of each class (logits); x and y of the centre within its cell (fraction of the
    stride); logarithm of the box's width and height over the stride.
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        first, second, third, head = _CHANNELS
        self.stem = nn.Sequential(convolution(3, first, 3, stride=2), convolution(first, second, 3, stride=2))
        self.fine = nn.Sequential(Residual(second), Residual(second))
        self.down = convolution(second, third, 3, stride=2)
        self.near = Residual(third)
        self.far = Residual(third)
        self.head = nn.Sequential(convolution(2 * third, head, 1), nn.Conv2d(head, classes + 4, 1))
        _start_silent(self.head[-1], classes)

    def forward(self, image: Tensor) -> Tensor:
        """Compute the output, as the class describes it, of images, float32 [n, 3, height, width]."""
        near = self.near(self.down(self.fine(self.stem(image))))
        # fine position comes from the smaller neighbourhood, the shape from the larger one
        output: Tensor = self.head(torch.cat([near, self.far(near)], dim=1))
        return output


class Residual(nn.Module):
    """Two 3 x 3 convolutions whose result is added to the input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = convolution(channels, channels, 3)
        self.second = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels))
        self.activation = nn.ReLU()

    def forward(self, features: Tensor) -> Tensor:
        """Compute features of the same shape from features, float32 [n, channels, height, width]."""
        output: Tensor = self.activation(features + self.second(self.first(features)))
        return output


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """Build a convolution that keeps the size at stride 1, followed by batch norm and ReLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


def _start_silent(last: nn.Module, classes: int) -> None:
    assert isinstance(last, nn.Conv2d) and last.bias is not None
    with torch.no_grad():
        last.bias[:classes] = _INITIAL_LOGIT
