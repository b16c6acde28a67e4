# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The driving network of DeepCache's evaluation: NVIDIA's PilotNet (Dave-2), from its paper (arXiv 1604.07316)."""

import torch
from torch import nn


def pilotnet() -> nn.Module:
    """Build PilotNet, which finds the steering angle from 66x200 pixels: five convolutions, then four dense layers."""
    sizes = [(3, 24, 5, 2), (24, 36, 5, 2), (36, 48, 5, 2), (48, 64, 3, 1), (64, 64, 3, 1)]
    convolutions = [
        layer
        for inputs, outputs, kernel, stride in sizes
        for layer in (nn.Conv2d(inputs, outputs, kernel, stride), nn.ReLU())
    ]
    dense = [
        nn.Linear(1152, 100),
        nn.ReLU(),
        nn.Linear(100, 50),
        nn.ReLU(),
        nn.Linear(50, 10),
        nn.ReLU(),
        nn.Linear(10, 1),
    ]
    return nn.Sequential(*convolutions, nn.Flatten(), *dense)


class Mixed(nn.Module):
    """A network with a residual, a concatenation, both poolings, grouped and dilated convolutions, and two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 5, 2, 2, bias=False), nn.BatchNorm2d(16), nn.ReLU6())
        self.depthwise = nn.Conv2d(16, 16, 3, padding=2, dilation=2, groups=16)
        self.grouped = nn.Conv2d(16, 24, 3, padding=1, groups=4)
        self.wide = nn.Conv2d(16, 33, (1, 3), padding=(0, 1))
        self.shrink = nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False)
        self.peak = nn.MaxPool2d(3, 2, 1, ceil_mode=True)
        self.head = nn.Conv2d(57, 7, 3, padding=1)
        self.classes = nn.Linear(7, 5)

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.stem(image)
        x = torch.relu(x + self.depthwise(x))
        x = torch.cat([self.grouped(x), torch.sigmoid(self.wide(x))], 1)
        heat = self.head(self.peak(x) * 0.5 + self.shrink(x))
        return {"heat": heat, "classes": self.classes(heat.mean((2, 3)))}


def mixed() -> nn.Module:
    """Build an untrained :class:`Mixed` whose batch norm is not the identity."""
    module = Mixed()
    module.stem[1].running_mean.normal_(std=0.1)
    module.stem[1].running_var.uniform_(0.5, 2.0)
    return module


def narrow_vgg19() -> nn.Module:
    """Return VGG19's convolutions with an eighth of its channels, and small layers behind them."""
    from torchvision.models.vgg import cfgs, make_layers

    layers = make_layers([each if each == "M" else int(each) // 8 for each in cfgs["E"]])
    pooled = nn.AdaptiveAvgPool2d(7)
    return nn.Sequential(*layers, pooled, nn.Flatten(), nn.Linear(64 * 49, 64), nn.ReLU(), nn.Linear(64, 10)).eval()
