# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of a catalog's frames, judges, tuning and prices, and of the command that builds it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from cacheinf_ros.catalog.build.catalog_frames import Sample, load_data
from cacheinf_ros.catalog.build.finetune import TuningConfig, Tutor, center_loss, class_loss
from cacheinf_ros.catalog.build.variant_accuracy import Judge, Measure
from cacheinf_ros.catalog.prices import Measured, PriceConfig, costs_of
from cacheinf_ros.catalog.variant import Place
from cacheinf_ros.cli.catalog import catalogs
from cacheinf_ros.energy.power_model import PowerModel
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import load_model
from cacheinf_ros.offload.planning import Workload
from cacheinf_ros.sources import OBJECT_LABELS, Scene, open_source

TINY = f"{Path(__file__).parents[2] / 'networks' / 'tiny.py'}:tiny"


def test_built_in_frames_know_the_truth() -> None:
    names = load_data(load_model("scenenames").card, ["built-in"], ["built-in"], (3, 15))
    assert len(names.training) == 3 and [sample.class_id for sample in names.held_out] == list(range(15))
    boxes = load_data(load_model("scenenet").card, [], ["scene:pan?seed=3&size=96x128"], (5, 2))
    assert not boxes.training and all(sample.truth is not None for sample in boxes.held_out)


def test_frames_are_not_used_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CatalogError, match="scene:fixed cannot be trained on and measured with"):
        load_data(load_model("scenenet").card, ["scene:fixed"], ["scene:fixed"], (1, 1))
    (tmp_path / "pictures").mkdir()
    monkeypatch.chdir(tmp_path)
    for spelling in ("pictures/", "./pictures", str(tmp_path / "pictures")):
        with pytest.raises(CatalogError, match=r"pictures.* cannot be trained on and measured with"):
            load_data(load_model("scenenet").card, ["pictures"], [spelling], (1, 1))
    with pytest.raises(CatalogError, match="cannot be trained on and measured with"):
        load_data(load_model("scenenet").card, ["drive.mcap:/camera"], ["./drive.mcap:/camera?values=0..9"], (1, 1))
    with pytest.raises(CatalogError, match="no frames to measure with"):
        load_data(load_model("scenenet").card, [], [], (1, 1))


def test_labelled_pictures_tell_the_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = load_model("scenenames").card
    for label, pictures in ((card.labels[3], 3), (card.labels[1], 2)):
        (tmp_path / "good" / label).mkdir(parents=True)
        for number in range(pictures):
            cv2.imwrite(str(tmp_path / "good" / label / f"{number}.png"), np.full((8, 8, 3), 40 * number, np.uint8))
    held_out = load_data(card, [], [str(tmp_path / "good")], (1, 4)).held_out
    assert sorted(sample.class_id or 0 for sample in held_out) == [1, 1, 3, 3]
    assert Judge(load_model("scenenames"), held_out).measure is Measure.TOP_1
    monkeypatch.setenv("HOME", str(tmp_path))
    assert len(load_data(card, [], ["~/good"], (1, 4)).held_out) == 4
    (tmp_path / "bad" / "unheard").mkdir(parents=True)
    with pytest.raises(CatalogError, match="unheard: scenenames has no such labels"):
        load_data(card, [], [str(tmp_path / "bad")], (1, 4))
    with pytest.raises(CatalogError, match="scenenet does not tell classes of pictures"):
        load_data(load_model("scenenet").card, [], [str(tmp_path / "bad")], (1, 4))


def labelled_scene(path: Path, classes: tuple[str, ...], unlabelled: int = 0) -> Path:
    """Write frames of a scene and their objects of these classes as COCO's format has it, and more frames without."""
    source = open_source("scene:pan?seed=200&noise=0&frames=200")
    assert isinstance(source, Scene)
    path.mkdir()
    found = {index: source.objects(index) for index in (0, 97, 194)}
    for index in (*found, *range(1, unlabelled + 1)):
        cv2.imwrite(str(path / f"{index}.png"), source.frame(index).image)
    content = {
        "images": [{"id": index, "file_name": f"{index}.png"} for index in found],
        "categories": [{"id": number, "name": name} for number, name in enumerate(classes)],
        "annotations": [
            {"image_id": index, "category_id": classes.index(each.label), "bbox": box}
            for index, objects in found.items()
            for each in objects
            for box in [(each.x, each.y, each.width, each.height)]
            if each.label in classes
        ],
    }  # fmt: skip
    (path / "labels.json").write_text(json.dumps(content))
    return path


def test_marked_boxes_tell_the_truth(tmp_path: Path) -> None:
    """A folder's labels give the accuracy that the scene has that they were made from; unmarked frames do not count."""
    model = load_model("scenenet")
    scene = Judge(
        model,
        load_data(model.card, [], ["scene:pan?seed=200&noise=0&frames=200"], (1, 3)).held_out,
    )
    held_out = load_data(model.card, [], [str(labelled_scene(tmp_path / "marked", OBJECT_LABELS, 2))], (1, 9)).held_out
    judge = Judge(model, held_out)
    assert len(held_out) == 3 and judge.measure is Measure.F1
    assert judge.accuracy(model.module) == scene.accuracy(model.module) > 0.5


def test_classes_that_nobody_marked_are_not_judged(tmp_path: Path) -> None:
    model = load_model("scenenet")
    held_out = load_data(model.card, [], [str(labelled_scene(tmp_path / "some", OBJECT_LABELS[:1]))], (1, 9)).held_out
    assert {sample.marked for sample in held_out} == {(0,)}
    none_marked = [replace(sample, marked=None) for sample in held_out]
    assert Judge(model, held_out).accuracy(model.module) > Judge(model, none_marked).accuracy(model.module)


def test_marked_boxes_must_suit_the_model(tmp_path: Path) -> None:
    card = load_model("scenenet").card
    folder = labelled_scene(tmp_path / "folder", OBJECT_LABELS)
    assert len(load_data(load_model("scenenames").card, [], [str(folder)], (1, 3)).held_out) == 3
    assert len(load_data(card, [str(folder)], ["built-in"], (3, 1)).training) == 3
    labels = (folder / "labels.json").read_text()
    (folder / "labels.json").write_text(labels.replace(f'"{OBJECT_LABELS[0]}"', '"unheard"'))
    with pytest.raises(CatalogError, match=f"labels of unheard, which scenenet has not; it has {OBJECT_LABELS[0]}"):
        load_data(card, [], [str(folder)], (1, 3))
    (folder / "labels.json").write_text(labels.replace(".png", ".jpg"))
    with pytest.raises(CatalogError, match="its labels name none of its pictures"):
        load_data(card, [], [str(folder)], (1, 3))


def test_scenenames_knows_unseen_scenes_by_name() -> None:
    model = load_model("scenenames")
    judge = Judge(model, load_data(model.card, [], ["built-in"], (1, 30)).held_out)
    assert judge.measure is Measure.TOP_1 and judge.accuracy(model.module) >= 0.85


def test_without_truth_the_original_is_right() -> None:
    model = load_model(TINY)
    samples = [Sample(image=image) for image in np.random.default_rng(0).integers(0, 256, (4, 48, 64, 3), np.uint8)]
    judge = Judge(model, samples)
    assert judge.measure is Measure.AGREEMENT and judge.accuracy(model.module) == 1.0
    constant = load_model(TINY).module
    with torch.no_grad():
        constant[-1].weight.zero_()
        constant[-1].bias.copy_(torch.eye(5)[4])
    first = [int(model.module(image).argmax()) for image in judge._inputs]
    assert judge.accuracy(constant) == pytest.approx(np.mean([c == 4 for c in first]))


def test_losses_by_hand() -> None:
    """Equal logits over two classes: entropy log 2, times temperature 2 squared."""
    logits = [torch.zeros(1, 2)]
    assert float(class_loss(logits, logits)) == pytest.approx(4 * np.log(2))
    seen = torch.zeros(1, 5, 1, 1)  # score 0.5, place 0
    ours = seen.clone()
    ours[0, 1] = 3.0  # a place is off by 3, weighted by the score 0.5, over a count of 1
    assert float(center_loss([ours], [seen])) == pytest.approx(1.5)


def test_tuning_comes_nearer_to_the_original_and_repeats() -> None:
    model = load_model(TINY)
    images = np.random.default_rng(0).integers(0, 256, (6, 48, 64, 3), np.uint8)
    tutor = Tutor(model, list(images), TuningConfig(steps=40, batch=3, learning_rate=1e-2))
    torch.manual_seed(5)
    start = load_model(TINY).module
    nn.init.normal_(start[-1].weight)
    one, other = tutor.teach(start), tutor.teach(start)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    inputs = torch.cat(tutor._inputs)
    exact = model.module(inputs)
    assert (one(inputs) - exact).square().mean() < (start(inputs) - exact).square().mean() / 2


def measured(device_ms: float = 20.0) -> Measured:
    workload = Workload(lay_out(load_model(TINY).graph))
    took = np.tile(np.linspace(0, 1, 6), (len(workload.names), 1))
    return Measured(
        device_ms=device_ms,
        prepare_ms=300.0,
        kept_bytes=0,
        memory_bytes=1000,
        whole_bytes=2000,
        workload=workload,
        took=took,
    )


def test_costs_by_hand() -> None:
    """Sent are 48 x 64 pixels of 2 bytes with 64 flags, 6 kB and a header; 8 Mbit/s are 1000 bytes per ms."""
    prices = PriceConfig(
        server_speedup=4, link_mbit_s=8, link_delay_ms=1, storage_mb_s=10, price_server_s=0.5, price_mb=2
    )
    power = PowerModel(idle_w=2, compute_w=10, transmit_w=3, receive_w=1)
    costs = costs_of(measured(), 1_000_000, 2.0, prices, power)
    device, cloud = costs[Place.DEVICE], costs[Place.CLOUD]
    assert device.energy_j == pytest.approx((2 + 10) * 0.020)
    assert device.load_energy_j == pytest.approx(12 * 0.4)  # 100 ms of reading, 300 of preparing
    assert (device.load_ms, cloud.load_ms) == pytest.approx((400.0, 100 + 300 / 4))
    assert (device.memory_bytes, device.money, device.load_money) == (1000, 0, 0)
    up, down = 48 * (64 * 2 + 64 / 8 / 64) + 64, 5 * 4 + 1 / 8 + 64
    assert cloud.latency_ms == pytest.approx(up / 1000 + 1 + 20 / 4 + down / 1000 + 1)
    assert cloud.money == pytest.approx(0.5 * 0.005 + 2e-6 * (up + down))
    assert cloud.energy_j == pytest.approx((2 * cloud.latency_ms + 3 * up / 1000 + down / 1000) / 1e3)
    assert cloud.load_money == pytest.approx(0.5 * (0.1 + 0.3 / 4))
    kept = costs_of(replace(measured(), kept_bytes=4_000_000), 1_000_000, 2.0, prices, power)
    assert kept[Place.DEVICE].load_energy_j == pytest.approx(12 * 0.7)  # 400 ms of reading
    assert kept[Place.CLOUD].load_money == pytest.approx(0.5 * (0.4 + 0.3 / 4))


def test_a_split_lies_between() -> None:
    """On a slow link the image takes long, but its pooled features take next to no time."""
    prices = PriceConfig(server_speedup=100, link_mbit_s=1)
    costs = costs_of(measured(40.0), 1000, 3.0, prices, PowerModel())
    assert Place.SPLIT in costs
    split = costs[Place.SPLIT]
    assert split.latency_ms < min(costs[Place.DEVICE].latency_ms, costs[Place.CLOUD].latency_ms)
    assert split.memory_bytes == 2000 and split.money > 0


def test_build_and_show(tmp_path: Path) -> None:
    out, picture = tmp_path / "catalog", tmp_path / "front.png"
    words = ["--held-out", "scene:fixed?size=48x64", "--held-out-frames", "3", "--techniques", "factorise"]
    result = CliRunner().invoke(catalogs, ["build", TINY, "-o", str(out), *words, "--bits", "32,8"])
    assert result.exit_code == 0, result.output
    shown = CliRunner().invoke(catalogs, ["show", str(out), "--plot", str(picture)])
    text = " ".join(shown.output.split())
    assert "original" in text and "agreement with the original" in text and "modelled, 4 times" in text
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--techniques", "magic"], "technique 'magic': known are factorise"),
        (["--bits", "many"], "bits 'many'"),
        (["--held-out", "scene:nowhere"], "no built-in scene 'nowhere'"),
    ],
)
def test_mistakes(words: list[str], message: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(catalogs, ["build", TINY, "-o", str(tmp_path), *words])
    assert result.exit_code != 0 and message in str(result.exception)
