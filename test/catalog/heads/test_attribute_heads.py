# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Heads trained on a trunk, written and read, and the pictures on which they are trained."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
import yaml
from safetensors.numpy import load_file, save_file

from cacheinf_ros.catalog.build.catalog_frames import Sample
from cacheinf_ros.catalog.build.finetune import class_loss
from cacheinf_ros.catalog.build.variant_accuracy import Judge
from cacheinf_ros.catalog.heads.attribute_heads import Head, head_model, train_heads
from cacheinf_ros.catalog.heads.head_folder import check_name, read_heads, write_heads
from cacheinf_ros.catalog.labelled_pictures import (
    SCENE_ATTRIBUTES,
    Labelled,
    folder_labels,
    folder_samples,
    scene_samples,
)
from cacheinf_ros.catalog.linear import Linear
from cacheinf_ros.catalog.trunks import pre_forward, trunk_model
from cacheinf_ros.disk_cache import digest
from cacheinf_ros.engine import Engine, EngineConfig, Preprocessor, decode
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import Model, load_model
from cacheinf_ros.sources.scenes import PHOTOGRAPHS

TINY = f"{Path(__file__).parents[2] / 'networks' / 'tiny.py'}:tiny"
LABELS = {"hue": ("blue", "green", "red"), "light": ("dark", "bright")}


@pytest.fixture(scope="module")
def trunk() -> Model:
    return trunk_model(load_model(TINY))


def coloured(count: int, seed: int = 0) -> Iterator[Labelled]:
    """Yield pictures of noise in one colour, dark or bright; every tenth has no label for the light."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        hue, light = int(rng.integers(3)), int(rng.integers(2))
        image = np.zeros((48, 64, 3), np.uint8)
        image[:, :, hue] = rng.integers(*((40, 90), (160, 250))[light], (48, 64))
        classes = {"hue": hue} if number % 10 == 9 else {"hue": hue, "light": light}
        yield Labelled(image=image, classes=classes, held_out=number % 4 == 3)


def test_each_head_learns_its_attribute(trunk: Model) -> None:
    heads = train_heads(trunk, coloured(200), LABELS)
    assert [(head.name, head.labels) for head in heads] == list(LABELS.items())
    assert [head.samples for head in heads] == [150, 140]
    assert min(head.accuracy for head in heads) > 0.95
    fresh = list(coloured(60, seed=1))
    for head in heads:
        model = head_model(trunk, head)
        assert (model.name, model.card.labels) == (head.name, head.labels)
        found = pre_forward([model], [s for s in fresh if head.name in s.classes])
        (logits,) = found.outputs
        right = logits.argmax(axis=1) == [classes[head.name] for classes in found.classes]
        assert right.mean() > 0.95


def test_accuracy_is_that_on_what_was_held_out(trunk: Model) -> None:
    """The held-out pictures have the wrong labels here, so that everything learned is wrong for them."""
    samples = [
        Labelled(image=s.image, classes={"light": s.classes["light"] ^ s.held_out}, held_out=s.held_out)
        for s in coloured(120)
        if "light" in s.classes
    ]
    (head,) = train_heads(trunk, samples, {"light": LABELS["light"]})
    assert head.accuracy < 0.1


def test_attributes_without_samples_are_named(trunk: Model) -> None:
    with pytest.raises(CatalogError, match="attribute 'age': pictures of two or more classes are needed to learn from"):
        train_heads(trunk, coloured(20), {"age": ("old", "new")})
    training = [s for s in coloured(40) if not s.held_out]
    with pytest.raises(CatalogError, match=r"attribute 'hue'.* to judge by"):
        train_heads(trunk, training, {"hue": LABELS["hue"]})


@pytest.fixture
def folder(trunk: Model, tmp_path: Path) -> Path:
    write_heads(tmp_path / "heads", train_heads(trunk, coloured(80), LABELS), trunk, model=TINY, data="noise")
    return tmp_path / "heads"


def test_heads_are_read_as_they_were_written(trunk: Model, folder: Path) -> None:
    expected, found = train_heads(trunk, coloured(80), LABELS), read_heads(folder)
    for ours, theirs in zip(found.heads, expected, strict=True):
        assert (ours.name, ours.labels, ours.samples) == (theirs.name, theirs.labels, theirs.samples)
        assert ours.accuracy == pytest.approx(theirs.accuracy, abs=1e-3)
        assert np.array_equal(ours.layer.weight, theirs.layer.weight)
        assert np.array_equal(ours.layer.bias, theirs.layer.bias)
    shared = found.shared()
    assert [member.name for member in shared.members] == ["hue", "light"]
    image = torch.rand(1, 3, 48, 64)
    with torch.inference_mode():
        together = shared.model.module(image)
        for head in expected:
            assert torch.equal(together[f"{head.name}/logits"], head_model(trunk, head).module(image)["logits"])


def test_all_heads_are_one_model_for_everybody(folder: Path) -> None:
    """The card beside the heads is read like any model's, and results name each attribute's class."""
    shared, loaded = read_heads(folder).shared(), load_model(str(folder / "shared.yaml"))
    assert loaded.name == "heads"
    assert len(loaded.graph.operators) == len(shared.model.graph.operators)
    (sample,) = (s for i, s in enumerate(coloured(1)) if i == 0)
    result = Engine(loaded, EngineConfig.checked(threads=1)).run(sample.image, None)
    assert set(result.outputs) == {"hue/logits", "light/logits"}
    decoded = decode(result.outputs, loaded.card, (48, 64))
    assert [c.name for c in decoded.classes] == [
        f"{name}: {LABELS[name][sample.classes[name]]}" for name in ("hue", "light")
    ]
    assert all(0.5 < c.score <= 1 for c in decoded.classes)


def test_a_catalog_of_all_heads_agrees_in_each(folder: Path) -> None:
    """One of two heads always gives the same answer, and so agrees as often as the original happens to give it."""
    model = load_model(str(folder / "shared.yaml"))
    samples = [Sample(image=labelled.image) for labelled in coloured(20)]
    judge = Judge(model, samples)
    assert judge.accuracy(model.module) == 1.0
    found = [model.module(torch.from_numpy(Preprocessor(model.card).input(s.image))) for s in samples]
    bright = np.mean([int(outputs["light/logits"].argmax()) == 1 for outputs in found])
    assert 0 < bright < 1

    class Constant(torch.nn.Module):
        def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
            return {**model.module(image), "light/logits": torch.tensor([[0.0, 1.0]])}

    assert judge.accuracy(Constant()) == pytest.approx((1 + bright) / 2)


def test_class_losses_add_up() -> None:
    """Two equal classes give log 2 at any temperature T, times T squared, which is 4; and there are two heads."""
    even, other = torch.zeros(1, 2), torch.tensor([[1.0, 1.0]])
    assert float(class_loss([even, other], [even, other])) == pytest.approx(8 * np.log(2))


def _change(folder: Path, **values: object) -> None:
    path = folder / "heads.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | values))


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"version": 2}, "version"),
        ({"heads": []}, "heads"),
        ({"heads": [{"name": "../x", "labels": ["a", "b"], "accuracy": 1, "samples": 1}]}, r"heads\.0\.name"),
        ({"heads": [{"name": "hue", "labels": ["a", "b"], "accuracy": 1.5, "samples": 1}]}, r"heads\.0\.accuracy"),
        ({"heads": [{"name": "hue", "labels": ["a", "b"], "accuracy": 1, "samples": 1}]}, r"weights \(2, 8\)"),
        ({"heads": [{"name": "age", "labels": ["a", "b"], "accuracy": 1, "samples": 1}]}, "age.safetensors"),
        ({"heads": [{"name": "hue", "labels": ["a", "b"], "accuracy": 1, "samples": 1}] * 2}, "two heads"),
        ({"trunk": "0123"}, "other weights"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_what_is_wrong_with_a_folder_is_said(folder: Path, values: dict[str, object], complaint: str) -> None:
    _change(folder, **values)
    with pytest.raises(CatalogError, match=complaint):
        read_heads(folder)


def test_broken_files_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match=r"heads\.yaml cannot be read"):
        read_heads(tmp_path / "nowhere")
    path, said = folder / "hue.safetensors", (folder / "heads.yaml").read_text()
    arrays, before = load_file(path), digest(path)

    def assert_refused(complaint: str) -> None:
        """Check that the file is refused, even if the stated hash is that of the wrong content."""
        with pytest.raises(CatalogError, match=r"hue\.safetensors has changed"):
            read_heads(folder)
        (folder / "heads.yaml").write_text(said.replace(before, digest(path)))
        with pytest.raises(CatalogError, match=complaint):
            read_heads(folder)
        (folder / "heads.yaml").write_text(said)

    save_file({**arrays, "bias": np.full(3, np.nan, np.float32)}, path)
    assert_refused("must hold finite float32 weights")
    path.write_bytes(b"nonsense")
    assert_refused(r"hue\.safetensors cannot be read")
    path.write_bytes(bytes(10_000_000))
    with pytest.raises(CatalogError, match=r"more than .* bytes"):
        read_heads(folder)
    (folder / "heads.yaml").write_text("- nothing")
    with pytest.raises(CatalogError, match="must be a mapping"):
        read_heads(folder)


def test_a_flipped_bit_of_weights_is_noticed(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = folder / "hue.safetensors"
    damaged = bytearray(path.read_bytes())
    damaged[-2] ^= 1  # of the last weight's exponent or its fraction: still a number
    path.write_bytes(damaged)
    with pytest.raises(CatalogError, match=r"hue\.safetensors has changed since it was written; train it anew"):
        read_heads(folder)
    assert not _warnings(caplog)
    said = yaml.safe_load((folder / "heads.yaml").read_text())
    _change(folder, heads=[{key: value for key, value in head.items() if key != "sha256"} for head in said["heads"]])
    assert len(read_heads(folder).heads) == 2, "as folders were before"
    (warning,) = _warnings(caplog)
    assert str(folder) in warning and "no SHA-256" in warning


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_names_that_are_no_files_are_not_written(trunk: Model, tmp_path: Path) -> None:
    layer = Linear(weight=np.zeros((2, 8), np.float32), bias=np.zeros(2, np.float32))
    head = Head(name="../../out", labels=("a", "b"), layer=layer, accuracy=0.5, samples=1)
    with pytest.raises(CatalogError, match=r"heads\.0\.name"):
        write_heads(tmp_path / "heads", (head,), trunk, model=TINY)
    assert not list(tmp_path.iterdir())


def test_a_folder_of_pictures(tmp_path: Path) -> None:
    for attribute, classes in {"door": ("open", "shut"), "lamp": ("off", "on")}.items():
        for name in classes:
            (tmp_path / attribute / name).mkdir(parents=True)
            for number in range(5):
                cv2.imwrite(str(tmp_path / attribute / name / f"{number}.png"), np.full((8, 8, 3), number, np.uint8))
    assert folder_labels(tmp_path) == {"door": ("open", "shut"), "lamp": ("off", "on")}
    samples = list(folder_samples(tmp_path, ["lamp"]))
    assert [s.classes["lamp"] for s in samples] == [0] * 5 + [1] * 5
    assert [s.held_out for s in samples] == [False, False, False, True, False] * 2
    assert samples[7].image[0, 0].tolist() == [2, 2, 2]


def test_folders_that_hold_no_attributes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="cannot be read"):
        folder_labels(tmp_path / "nowhere")
    with pytest.raises(CatalogError, match=r"no pictures as ATTRIBUTE/CLASS/picture\.png"):
        folder_labels(tmp_path)
    (tmp_path / "door" / "open").mkdir(parents=True)
    with pytest.raises(CatalogError, match="1 classes"):
        folder_labels(tmp_path)


def test_scenes_show_what_their_attributes_say() -> None:
    samples = list(scene_samples(4 * len(PHOTOGRAPHS), 1, (64, 96)))
    assert sum(s.held_out for s in samples) == len(PHOTOGRAPHS)
    for sample in samples:
        assert set(sample.classes) == set(SCENE_ATTRIBUTES)
        assert all(0 <= c < len(SCENE_ATTRIBUTES[name]) for name, c in sample.classes.items())
        assert (sample.classes["crowd"] == 0) == (sample.classes["object"] == 0)
    by_light = [np.mean([s.image.mean() for s in samples if s.classes["light"] == k]) for k in range(3)]
    assert by_light == sorted(by_light)
    for held_out in (False, True):
        assert {s.classes["photograph"] for s in samples if s.held_out is held_out} == set(range(len(PHOTOGRAPHS)))


def test_the_same_seed_shows_the_same_scenes() -> None:
    first, again, other = (list(scene_samples(15, 1, (64, 96), seed)) for seed in (1, 1, 2))
    assert all(np.array_equal(a.image, b.image) and a.classes == b.classes for a, b in zip(first, again, strict=True))
    assert any(not np.array_equal(a.image, b.image) for a, b in zip(first, other, strict=True))


def test_names_that_no_file_can_have_are_refused_before_any_training() -> None:
    check_name("front_door-2")
    for name in ("front door", "../door", ""):
        with pytest.raises(CatalogError, match="rename its folder"):
            check_name(name)
