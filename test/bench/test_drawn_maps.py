# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Drawn class maps have the size and the places of a segmenter's decisions."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from cacheinf_ros.bench import recorded
from cacheinf_ros.bench.drawn_maps import drawn_maps
from cacheinf_ros.engine import Preprocessor
from cacheinf_ros.engine.decisions import ClassMaps
from cacheinf_ros.errors import SourceError
from cacheinf_ros.graph import ModelCard, Resize, model_of
from cacheinf_ros.sources import open_source

CLASSES = 5
SIZE = (40, 60)


class Echo(torch.nn.Module):
    """Gives each pixel the class that its value says, as scores or as numbers."""

    def __init__(self, made: str) -> None:
        super().__init__()
        self.made = made

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        scores = torch.cat([-((image[:, :1] - number) ** 2) for number in range(CLASSES)], 1)
        if self.made == "scores":
            return scores
        return scores.argmax(1, keepdim=self.made == "channel")


def drawn(folder: Path, classes: int = CLASSES) -> list[np.ndarray]:
    """Write two pictures whose values are classes, and maps that say so; the second has none."""
    (folder / "labels").mkdir()
    rng = np.random.default_rng(1)
    maps = [rng.integers(0, classes, SIZE, np.uint8) for _ in range(2)]
    for number, each in enumerate(maps):
        cv2.imwrite(str(folder / f"{number}.png"), cv2.merge([each] * 3))
    cv2.imwrite(str(folder / "labels" / "0.png"), maps[0])
    return maps


@pytest.mark.parametrize("made", ["scores", "classes", "channel"])
@pytest.mark.parametrize("most_pixels", [None, 700])
def test_they_equal_the_answers_of_a_network_that_is_right(made: str, most_pixels: int | None, tmp_path: Path) -> None:
    card = ModelCard(
        name="echo", factory="echo", input_size=SIZE, channel_order="bgr", scale=1.0, mean=(0, 0, 0), std=(1, 1, 1)
    )
    model = model_of(Echo(made), card)
    first, _ = drawn(tmp_path)
    ((name, _),) = model.graph.outputs
    task = ClassMaps(name, SIZE, most_pixels=most_pixels)
    found, none = drawn_maps(list(recorded(open_source(str(tmp_path)))), task, model)
    image = torch.from_numpy(first.astype(np.float32)).expand(1, 3, *SIZE)
    answer = task.read({name: model.module(image).numpy()}, SIZE)
    assert none is None and found is not None and np.array_equal(found, answer)
    assert found.size <= (most_pixels or found.size)


@pytest.mark.parametrize("resize", ["letterbox", "letterbox_corner"])
@pytest.mark.parametrize("most_pixels", [None, 300])
def test_those_of_letterboxed_pictures_have_no_margins(resize: Resize, most_pixels: int | None, tmp_path: Path) -> None:
    card = ModelCard(
        name="echo", factory="echo", input_size=SIZE, channel_order="bgr", scale=1.0, mean=(0, 0, 0), std=(1, 1, 1),
        resize=resize,
    )  # fmt: skip
    model = model_of(Echo("scores"), card)
    picture = np.random.default_rng(1).integers(0, CLASSES, (20, 60), np.uint8)  # half as high as the input
    (tmp_path / "labels").mkdir()
    cv2.imwrite(str(tmp_path / "0.png"), cv2.merge([picture] * 3))
    cv2.imwrite(str(tmp_path / "labels" / "0.png"), picture)
    ((name, _),) = model.graph.outputs
    task = ClassMaps(name, SIZE, resize=resize, most_pixels=most_pixels)
    (found,) = drawn_maps(list(recorded(open_source(str(tmp_path)))), task, model)
    given = torch.from_numpy(Preprocessor(card).input(cv2.merge([picture] * 3)))
    answer = task.read({name: model.module(given).numpy()}, (20, 60))
    assert found is not None and np.array_equal(found, answer)
    assert np.array_equal(answer, picture) or most_pixels is not None


def test_classes_that_the_model_has_not_are_refused(tmp_path: Path) -> None:
    card = ModelCard(name="echo", factory="echo", input_size=SIZE)
    model = model_of(Echo("scores"), card)
    drawn(tmp_path, CLASSES + 1)
    with pytest.raises(SourceError, match="have 5, but the classes of echo are 0 to 4"):
        drawn_maps(list(recorded(open_source(str(tmp_path)))), ClassMaps(model.graph.outputs[0][0], SIZE), model)


def test_other_models_do_not_read_them(tmp_path: Path) -> None:
    """A folder of labels may be for another model, and need not be valid."""
    drawn(tmp_path)
    (tmp_path / "labels" / "0.png").write_bytes(b"no picture")
    card = ModelCard(name="mean", factory="mean", input_size=SIZE)
    model = model_of(torch.nn.Sequential(Echo("scores"), torch.nn.AdaptiveAvgPool2d(1)), card)
    shots = list(recorded(open_source(str(tmp_path))))
    assert drawn_maps(shots, ClassMaps(model.graph.outputs[0][0], SIZE), model) == [None, None]
