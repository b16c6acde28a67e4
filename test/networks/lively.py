# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Factories for torchvision's networks, by their names there: untrained, but with outputs that depend on the image.

Untrained, many of them let activations vanish, and a graph that computes nonsense deep inside would still give the
right outputs. Here batch norms have the statistics of an image, no layer starts at zero, and no bias is much larger
than what it is added to.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from cacheinf_ros.graph.model_factory import build_module

_SIZE = (128, 128)


def __getattr__(name: str) -> Callable[[], nn.Module]:
    if name.startswith("_"):
        raise AttributeError(name)
    return lambda: _lively(build_module(f"torchvision:{name}"))


@torch.no_grad()
def _lively(network: nn.Module) -> nn.Module:
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    for name, parameter in network.named_parameters():
        if name.endswith("layer_scale"):  # ConvNeXt begins with almost nothing
            parameter.uniform_(0.5, 1.5)
    for norm in norms:
        norm.momentum = None  # the plain mean over the batches
        norm.train()
        norm.weight.uniform_(0.8, 1.2)
        norm.bias.normal_(std=0.1)
    if norms:
        network(torch.randn(2, 3, *_SIZE))
    elif not any(isinstance(module, nn.LayerNorm) for module in network.modules()):
        for module in network.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):  # AlexNet's and SqueezeNet's biases outweigh the image
                nn.init.kaiming_normal_(module.weight)
                nn.init.zeros_(module.bias)
    return network.eval()
