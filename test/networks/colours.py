# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A network that names the colour of a picture by its mean pixel, with far more effort than that takes."""

import itertools

import torch
from torch import nn

CORNERS = tuple(itertools.product((0, 1), repeat=3))
"""The corners of the colour cube: red, green and blue of each class, in the order of the card's labels."""
_WIDTH = 32


def colours() -> nn.Module:
    """Build a network with eight classes for frames of 48x64 pixels, whose weights are set instead of trained."""
    first = nn.Conv2d(3, 6, 3, 2, 1)  # how much more, and how much less, than half of each colour there is
    middle = [nn.Conv2d(6, _WIDTH, 3, 1, 1), nn.Conv2d(_WIDTH, _WIDTH, 3, 1, 1)]
    last = nn.Linear(_WIDTH, len(CORNERS))
    with torch.no_grad():
        for layer in (first, *middle, last):
            layer.weight.zero_()
            layer.bias.zero_()
        for colour, (sign, way) in itertools.product(range(3), ((1.0, 0), (-1.0, 1))):
            first.weight[2 * colour + way, colour, 1, 1] = sign
            first.bias[2 * colour + way] = -sign / 2
        for layer in middle:
            for channel in range(6):
                layer.weight[channel, channel, 1, 1] = 1.0
        for class_id, corner in enumerate(CORNERS):
            for colour, is_on in enumerate(corner):
                last.weight[class_id, 2 * colour], last.weight[class_id, 2 * colour + 1] = (
                    (9.0, -9.0) if is_on else (-9.0, 9.0)
                )
    layers = [first, nn.ReLU(), *(part for layer in middle for part in (layer, nn.ReLU()))]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), last)
