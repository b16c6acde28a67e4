# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of the built-in scenenames: its card, its size, and its trunk and head apart."""

from pathlib import Path

import torch

import cacheinf_ros.graph.scenenames as module
from cacheinf_ros.graph import load_model
from cacheinf_ros.sources.scenes import PHOTOGRAPHS

WEIGHTS = Path(module.__file__).parent / "cards" / "scenenames.safetensors"


def test_the_card_fits_the_network() -> None:
    model = load_model("scenenames")
    assert model.card.labels == PHOTOGRAPHS and model.graph.unknown == ()
    assert model.module(torch.zeros(2, 3, *model.input_size)).shape == (2, len(PHOTOGRAPHS))


def test_the_weights_are_small() -> None:
    assert WEIGHTS.stat().st_size < 500_000


def test_the_head_reads_what_the_trunk_says() -> None:
    network = module.scenenames().eval()
    image = torch.rand(1, 3, 64, 96)
    features = network.trunk(image)
    assert features.shape == (1, 64, 4, 6)
    assert torch.equal(network.head(features), network(image))
