# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of the built-in scenenet: its shape, its receptive field, and that it finds what it was trained to find."""

from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

import cacheinf_ros.graph.scenenet as module
from cacheinf_ros.engine.accuracy import Detections, DetectionScore, score_frame
from cacheinf_ros.engine.decoders.centers import decode_centers
from cacheinf_ros.sources import OBJECT_LABELS, open_source

CARD = Path(module.__file__).parent / "cards" / "scenenet.yaml"


@pytest.fixture(scope="module")
def card():
    return yaml.safe_load(CARD.read_text())


@pytest.fixture(scope="module")
def network(card):
    net = module.scenenet()
    net.load_state_dict(load_file(CARD.parent / card["weights"]))
    return net.eval()


def run(network, card, image):
    assert card["channel_order"] == "rgb"
    rgb = (image[:, :, ::-1].astype(np.float32) * card["scale"] - card["mean"]) / card["std"]
    with torch.no_grad():
        return network(torch.from_numpy(rgb.astype(np.float32).transpose(2, 0, 1)[None])).numpy()


def test_the_card_fits_the_network(network, card):
    assert card["factory"] == "cacheinf_ros.graph.scenenet:scenenet"
    assert card["labels"] == list(OBJECT_LABELS)
    height, width = card["input_size"]
    stride = card["decoder"]["stride"]
    output = network(torch.zeros(1, 3, height, width))
    assert output.shape == (1, len(OBJECT_LABELS) + 4, height // stride, width // stride)


def test_the_weights_are_small(card):
    assert (CARD.parent / card["weights"]).stat().st_size < 2_000_000


def test_an_output_depends_on_at_most_111_pixels():
    network = module.scenenet().double().eval()
    image = torch.randn(1, 3, 240, 240, dtype=torch.float64, requires_grad=True)
    network(image)[0, :, 15, 15].sum().backward()
    touched = torch.nonzero(image.grad.abs().sum(dim=(0, 1)))
    extent = touched.max(dim=0).values - touched.min(dim=0).values + 1
    assert (extent <= 111).all() and (extent > 64).all()


def test_only_local_operators():
    allowed = (torch.nn.Conv2d, torch.nn.BatchNorm2d, torch.nn.ReLU, torch.nn.Sequential, module.Residual)
    assert all(isinstance(part, allowed) for part in list(module.scenenet().modules())[1:])


@pytest.mark.parametrize("preset", ["fixed", "handheld"])
def test_finds_the_objects_of_unseen_scenes(network, card, preset):
    decoder = {key: card["decoder"][key] for key in ("stride", "score_threshold")}
    total = DetectionScore()
    for seed in (101, 102, 103):
        scene = open_source(f"scene:{preset}?seed={seed}&frames=100")
        for index in (0, 50, 99):
            boxes, scores, classes = decode_centers(run(network, card, scene.frame(index).image), **decoder)
            found = Detections(boxes=boxes, scores=scores, classes=classes)
            total += score_frame(found, Detections.of_truth(scene.truth(index)))
    assert total.f1 >= 0.9
