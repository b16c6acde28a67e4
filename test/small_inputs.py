# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Networks that users run, with inputs small enough for tests."""

from __future__ import annotations

from pathlib import Path

import pytest

NETWORKS = Path(__file__).parent / "networks"
SIZES = {
    "torchvision:alexnet": (128, 160),
    "torchvision:vgg19": (64, 96),
    "torchvision:googlenet": (96, 128),
    "torchvision:resnet50": (96, 128),
    "torchvision:mobilenet_v2": (96, 128),
    "torchvision:squeezenet1_1": (96, 128),
    "torchvision:regnet_x_16gf": (64, 96),
    "torchvision:convnext_tiny": (64, 96),
    "torchvision:densenet121": (64, 96),
    "torchvision:efficientnet_b0": (96, 128),
    "torchvision:shufflenet_v2_x1_0": (96, 128),
    "torchvision:deeplabv3_mobilenet_v3_large": (96, 128),
    "torchvision:fcn_resnet50": (64, 96),
    "torchvision:lraspp_mobilenet_v3_large": (96, 128),
    f"{NETWORKS / 'small.py'}:pilotnet": (66, 200),
    str(NETWORKS / "espnet.yaml"): (128, 192),
    str(NETWORKS / "pose.yaml"): (96, 128),
    "scenenet": (96, 128),
}
"""The input's (height, width) for each model reference."""


def each_network(*names: str) -> pytest.MarkDecorator:
    """Run a test with several networks, by the fixture ``model``: all, or those whose references end in these names."""
    by_name = {Path(reference.rpartition(":")[2]).stem: reference for reference in SIZES}
    chosen = names or tuple(by_name)
    return pytest.mark.parametrize("model", [by_name[name] for name in chosen], ids=chosen, indirect=True)
