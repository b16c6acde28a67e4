# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Detectors are recognised by their outputs, and other models are left alone."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from networks.lowered import graph_of
from torch import Tensor, nn

from cacheinf_ros.engine import Box, Preprocessor, decode
from cacheinf_ros.graph import Model, ModelCard, load_model
from cacheinf_ros.graph.known_models import recognised
from cacheinf_ros.sources import open_source
from cacheinf_ros.sources.scenes import Gallery, load_photographs


class Cells(nn.Module):
    """A network with outputs like FastestDet's head."""

    def __init__(self, classes: int, stride: int = 16) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, stride, 1)
        self.parts = nn.ModuleList(nn.Conv2d(8, channels, 1) for channels in (1, 4, classes))

    def forward(self, image: Tensor) -> Tensor:
        features = self.down(image)
        return torch.cat([part(features) for part in self.parts], 1)


class Priors(nn.Module):
    """A network with outputs like RFB's, for any number of boxes."""

    def __init__(self, boxes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(3, boxes * 6)
        self.boxes = boxes

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        values = self.layer(image.mean((2, 3)))
        return {
            "scores": values[:, : 2 * self.boxes].reshape(1, self.boxes, 2),
            "boxes": values[:, 2 * self.boxes :].reshape(1, self.boxes, 4),
        }


def card_of(module: nn.Module, size: tuple[int, int], **said: object) -> ModelCard:
    return recognised(ModelCard(name="test", factory="file.onnx", **said), graph_of(module.eval(), size))


def kind(card: ModelCard) -> str | None:
    return card.decoder.kind if card.decoder else None


def test_fastestdet_is_known_by_its_parts() -> None:
    card = card_of(Cells(80), (96, 64))
    assert kind(card) == "fastestdet" and card.labels[2] == "car" and len(card.labels) == 80
    assert (card.channel_order, card.mean, card.name) == ("bgr", (0, 0, 0), "test")
    assert kind(card_of(Cells(80, stride=8), (96, 64))) is None
    assert kind(card_of(nn.Conv2d(3, 85, 3, 16, 1), (96, 64))) is None


def test_rfb_is_known_by_the_number_of_its_priors() -> None:
    card = card_of(Priors(4420), (240, 320))
    assert kind(card) == "ssd" and card.labels == ("background", "face")
    assert (card.scale, card.mean, card.std) == (1, (127,) * 3, (128,) * 3)
    assert kind(card_of(Priors(4420), (240, 240))) is None


def test_a_card_that_says_something_is_left_alone() -> None:
    card = card_of(Cells(80), (96, 64), scale=1.0)
    assert kind(card) is None and card.channel_order == "rgb"


def found(model: Model, image: np.ndarray) -> list[Box]:
    with torch.inference_mode():
        outputs = model.module(torch.from_numpy(Preprocessor(model.card).input(image)))
    return list(decode({name: value.numpy() for name, value in outputs.items()}, model.card, image.shape[:2]).boxes)


def test_fastestdet_finds_cars(shared_data: Path) -> None:
    model = load_model(str(shared_data / "models" / "FastestDet.onnx"))
    frame = next(iter(open_source(str(shared_data / "clips" / "solidWhiteRight.mp4"))))
    cars = [box for box in found(model, frame.image) if box.name == "car"]
    assert cars and cars[0].score > 0.6
    # the motorway's horizon is above the middle of the picture
    assert all(200 < box.y + box.height / 2 < 400 for box in cars)


@pytest.mark.parametrize("side", [1.0, 0.5])
def test_rfb_finds_a_face(shared_data: Path, side: float) -> None:
    model = load_model(str(shared_data / "models" / "RFB-320_without_postprocessing.onnx"))
    astronaut = load_photographs(Gallery.TRAIN)[0]
    canvas = np.full_like(astronaut, 128)
    smaller = cv2.resize(astronaut, None, fx=side, fy=side, interpolation=cv2.INTER_AREA)
    canvas[: smaller.shape[0], : smaller.shape[1]] = smaller
    (face,) = found(model, canvas)
    assert face.name == "face" and face.score > 0.9
    centre = np.array([face.x + face.width / 2, face.y + face.height / 2]) / side
    assert np.abs(centre - [223, 118]).max() < 20  # between nose and mouth
