# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Segmenters are measured on folders with drawn class maps."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from torch import nn

from cacheinf_ros.catalog.build.catalog_frames import Sample, load_data
from cacheinf_ros.catalog.build.variant_accuracy import Judge, Measure
from cacheinf_ros.errors import CatalogError, SourceError
from cacheinf_ros.graph import Model, ModelCard, model_of

CORNERS = tuple(itertools.product((0, 255), repeat=3))
"""The colours that the segmenter tells apart, B, G, R."""
SIZE = (24, 32)


def segmenter(**changes: object) -> Model:
    """Return a network that gives each pixel the class of the nearest colour, at half of the input's resolution."""
    layer = nn.Conv2d(3, len(CORNERS), 1)
    with torch.no_grad():
        for number, corner in enumerate(CORNERS):
            layer.weight[number, :, 0, 0] = torch.tensor([1.0 if value else -1.0 for value in corner])
            layer.bias[number] = -127.5 * sum(1 if value else -1 for value in corner)
    card = ModelCard(
        name="colours", factory="colours", input_size=SIZE, channel_order="bgr", scale=1.0, mean=(0, 0, 0),
        std=(1, 1, 1), decoder={"kind": "map"},
    )  # fmt: skip
    return model_of(nn.Sequential(layer, nn.AvgPool2d(2)), card.changed(**changes))


def drawn(folder: Path, size: tuple[int, int] = (48, 64)) -> Path:
    """Write pictures of two colours, left and right, their class maps, and a picture without one."""
    (folder / "labels").mkdir(parents=True)
    half = size[1] // 2
    for number in range(3):
        picture, classes = np.empty((*size, 3), np.uint8), np.empty(size, np.uint8)
        for part, class_id in ((np.s_[:, :half], number), (np.s_[:, half:], number + 3)):
            picture[part], classes[part] = CORNERS[class_id], class_id
        cv2.imwrite(str(folder / f"{number}.png"), picture)
        if number < 2:
            cv2.imwrite(str(folder / "labels" / f"{number}.png"), classes)
    return folder


@pytest.mark.parametrize("resize", ["stretch", "letterbox"])
def test_drawn_maps_tell_the_truth(resize: str, tmp_path: Path) -> None:
    model = segmenter(resize=resize)
    held_out = load_data(model.card, [], [str(drawn(tmp_path, (48, 64) if resize == "stretch" else (48, 96)))], (1, 9))
    judge = Judge(model, held_out.held_out)
    assert len(held_out.held_out) == 2 and judge.measure is Measure.MEAN_IOU
    assert judge.accuracy(model.module) == 1.0
    always_three = segmenter()
    with torch.no_grad():
        always_three.module[0].weight.zero_()
        always_three.module[0].bias.copy_(torch.eye(len(CORNERS))[3])
    # class 3 is half of the first picture, so a quarter of what it is found in; 0, 1 and 4 are never found
    assert judge.accuracy(always_three.module) == pytest.approx(1 / 4 / 4)


class LeftHalf(nn.Module):
    """Tells the colours of the left one of two pictures."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, frame: torch.Tensor) -> torch.Tensor:
        return self.network(frame.chunk(2, dim=3)[0])


def test_of_two_pictures_the_map_of_the_left_one_counts(tmp_path: Path) -> None:
    folder = drawn(tmp_path)
    for file in (*folder.glob("*.png"), *folder.glob("labels/*.png")):
        left = cv2.imread(str(file), cv2.IMREAD_UNCHANGED)
        cv2.imwrite(str(file), np.concatenate((left, np.full_like(left, 7)), axis=1))
    one = segmenter()
    two = model_of(LeftHalf(one.module), one.card.changed(pictures=2, input_size=(SIZE[0], 2 * SIZE[1])))
    judge = Judge(two, load_data(two.card, [], [str(folder)], (1, 9)).held_out)
    assert judge.measure is Measure.MEAN_IOU and judge.accuracy(two.module) == 1.0


def test_half_of_the_maps_are_not_the_truth(tmp_path: Path) -> None:
    """Where only some frames have maps, as from several sources, the original counts as right."""
    model = segmenter()
    held_out = load_data(model.card, [], [str(drawn(tmp_path))], (1, 9)).held_out
    assert Judge(model, [*held_out, Sample(image=held_out[0].image)]).measure is Measure.AGREEMENT


def test_maps_must_suit_pictures_and_model(tmp_path: Path) -> None:
    model, folder = segmenter(), drawn(tmp_path / "folder")
    held_out = load_data(model.card, [], [str(folder)], (1, 9)).held_out
    wrong = [replace(sample, class_map=np.full_like(sample.class_map, 8)) for sample in held_out]
    with pytest.raises(
        SourceError, match="have 8, but the classes of colours are 0 to 7; number them so, and write 255"
    ):
        Judge(model, wrong)
    nobody_knows = [replace(sample, class_map=np.full_like(sample.class_map, 255)) for sample in held_out]
    with pytest.raises(SourceError, match="all pixels of the class maps in labels/ are 255, which is not judged"):
        Judge(model, nobody_knows)
    cv2.imwrite(str(folder / "labels" / "0.png"), np.zeros((5, 6), np.uint8))
    with pytest.raises(SourceError, match=r"0\.png and its class map in labels/ differ in size: 5x6 and 48x64"):
        load_data(model.card, [], [str(folder)], (1, 9))
    for path in (folder / "labels").iterdir():
        path.rename(path.with_stem(f"{path.stem}_mask"))
    with pytest.raises(
        CatalogError, match=r"labels has no class map of any of its pictures; name a map labels/NAME\.png"
    ):
        load_data(model.card, [], [str(folder)], (1, 9))


def test_a_classifier_has_no_maps(tmp_path: Path) -> None:
    model = segmenter()
    pooled = model_of(
        nn.Sequential(model.module, nn.AdaptiveAvgPool2d(1), nn.Flatten()), model.card.changed(decoder=None)
    )
    held_out = load_data(pooled.card, [], [str(drawn(tmp_path))], (1, 9)).held_out
    with pytest.raises(CatalogError, match=r"colours gives no map .* its outputs are \(1, 8\)"):
        Judge(replace(pooled, card=pooled.card.changed(labels=tuple("abcdefgh"))), held_out)
