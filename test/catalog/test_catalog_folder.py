# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A catalog read from disk is what was built, bit for bit, and errors in it are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.catalog.build import catalog_builder
from cacheinf_ros.catalog.build.catalog_builder import BuildConditions, Builder
from cacheinf_ros.catalog.build.catalog_frames import Data, Sample
from cacheinf_ros.catalog.build.finetune import TuningConfig
from cacheinf_ros.catalog.build.techniques import Technique
from cacheinf_ros.catalog.catalog_folder import CatalogFolder, read_catalog
from cacheinf_ros.catalog.variant import Place
from cacheinf_ros.engine import Engine, EngineConfig, Mode
from cacheinf_ros.errors import CatalogError, EngineError
from cacheinf_ros.graph import load_model

MODEL = f"{Path(__file__).parents[1] / 'networks' / 'tiny.py'}:tiny"


def frames(seed: int, count: int) -> list[np.ndarray]:
    return list(np.random.default_rng(seed).integers(0, 256, (count, 48, 64, 3), np.uint8))


def built(folder: Path, reference: str = MODEL) -> CatalogFolder:
    model = load_model(reference)
    held_out = tuple(Sample(image=image, class_id=i % 5) for i, image in enumerate(frames(1, 6)))
    data = Data(training=tuple(frames(0, 4)), held_out=held_out, description="noise")
    builder = Builder(reference, model, data, folder, BuildConditions(tuning=TuningConfig(steps=2, batch=2)))
    with pytest.MonkeyPatch.context() as patch:  # one strength of each: measuring a variant takes a second
        patch.setattr(catalog_builder, "STRENGTHS", {technique: (0.5,) for technique in Technique})
        return builder.build((Technique.FACTORISE, Technique.FEWER_KERNELS, Technique.SMALLER_DENSE))


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> CatalogFolder:
    return built(tmp_path_factory.mktemp("catalog"))


def test_the_original_is_kept_and_exact(catalog: CatalogFolder) -> None:
    original = catalog.catalog.find("original")
    assert original is not None and original.technique == "" and catalog.catalog.model == load_model(MODEL).name
    image = torch.rand(1, 3, 48, 64)
    assert torch.equal(catalog.load("original").module(image), load_model(MODEL).module(image))


def test_every_variant_is_recorded_with_its_costs(catalog: CatalogFolder) -> None:
    names = {entry.name for entry in (*catalog.file.variants, *catalog.file.dominated)}
    assert {"original", "8bit", "16bit", "fewer-kernels-0.5", "fewer-kernels-0.5-8bit"} <= names
    for variant in catalog.catalog.variants:
        device, cloud = variant.costs[Place.DEVICE], variant.costs.get(Place.CLOUD)
        assert device.latency_ms > 0 and device.memory_bytes > 0 and device.money == 0 and device.load_energy_j > 0
        if cloud is None:
            assert variant.name.endswith("int8") and set(variant.costs) == {Place.DEVICE}
            continue
        assert cloud.money > 0 and cloud.memory_bytes == 0 and cloud.load_energy_j == 0
    assert "smaller-dense 0.5" in catalog.file.left_out  # its only dense layer is the output


def test_every_architecture_is_quantised_and_takes_less_memory_then(catalog: CatalogFolder) -> None:
    entries = {entry.name: entry for entry in (*catalog.file.variants, *catalog.file.dominated)}
    in_floats = {
        name.replace("8bit", "int8"): entry for name, entry in entries.items() if entry.bits == 8 and not entry.int8
    }
    in_int8 = {name: entry for name, entry in entries.items() if entry.int8}
    assert {"int8", "fewer-kernels-0.5-int8"} <= in_int8.keys() == in_floats.keys()
    for name, entry in in_int8.items():
        assert entry.graph == in_floats[name].graph and entry.recipe.technique.endswith("computed in int8")
        assert entry.costs[Place.DEVICE].memory_bytes < in_floats[name].costs[Place.DEVICE].memory_bytes
        assert entry.stored_bytes == in_floats[name].stored_bytes


def test_scales_need_frames_that_accuracy_is_not_measured_on(tmp_path: Path) -> None:
    data = Data(training=(), held_out=(Sample(image=frames(1, 1)[0], class_id=0),), description="noise")
    found = Builder(MODEL, load_model(MODEL), data, tmp_path / "catalog").build((), (32,))
    assert [entry.name for entry in found.file.variants] == ["original"]
    assert "--data" in found.file.left_out["int8"]


def test_what_cannot_be_quantised_is_left_out_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise EngineError("not this one")

    monkeypatch.setattr(catalog_builder, "quantise", fails)
    data = Data(
        training=tuple(frames(0, 2)), held_out=(Sample(image=frames(1, 1)[0], class_id=0),), description="noise"
    )  # fmt: skip
    builder = Builder(MODEL, load_model(MODEL), data, tmp_path / "catalog")
    found = builder.build((), (32,))
    assert [entry.name for entry in found.file.variants] == ["original"] and found.file.left_out == {
        "int8": "not this one"
    }
    assert [path.name for path in found.path.glob("*.safetensors")] == ["original.safetensors"]


def test_fewer_bits_are_smaller_files(catalog: CatalogFolder) -> None:
    size = {entry.name: entry.stored_bytes for entry in (*catalog.file.variants, *catalog.file.dominated)}
    assert size["8bit"] < size["16bit"] < size["original"]


def test_variants_run_in_the_engine_as_they_were_built(catalog: CatalogFolder) -> None:
    """Loading again gives the same bits, in torch and in the engine; the hash of graph and weights is checked."""
    image = frames(3, 1)[0]
    for variant in catalog.catalog.variants:
        one, other = (catalog.load(variant.name) for _ in range(2))
        values = torch.rand(1, 3, 48, 64)
        assert torch.equal(one.module(values), other.module(values))
        config = EngineConfig(mode=Mode.DENSE)
        first, second = (Engine(model, config).run(image, None).outputs for model in (one, other))
        assert all(np.array_equal(first[name], second[name]) for name in first)


def test_what_is_not_on_the_front_has_no_file(catalog: CatalogFolder) -> None:
    files = {path.stem for path in catalog.path.glob("*.safetensors")}
    assert files == {entry.name for entry in catalog.file.variants}


def test_an_existing_catalog_is_not_overwritten(catalog: CatalogFolder) -> None:
    with pytest.raises(CatalogError, match="there is a catalog in"):
        built(catalog.path)


def test_an_exported_program_has_bits_only(tmp_path: Path) -> None:
    path = tmp_path / "tiny.pt2"
    torch.export.save(torch.export.export(load_model(MODEL).module, (torch.zeros(1, 3, 48, 64),)), path)
    found = built(tmp_path / "catalog", f"trusted:{path}")
    names = {entry.name for entry in (*found.file.variants, *found.file.dominated)}
    assert names == {"original", "16bit", "8bit", "int8"} and len(found.file.left_out) == 3
    image = torch.rand(1, 3, 48, 64)
    assert torch.equal(found.load("original").module(image), load_model(MODEL).module(image))


def test_an_unknown_variant(catalog: CatalogFolder) -> None:
    with pytest.raises(CatalogError, match=r"has no variant 'best'; it has .*original"):
        catalog.load("best")


def copied(catalog: CatalogFolder, folder: Path) -> dict:
    for path in catalog.path.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return yaml.safe_load((folder / "catalog.yaml").read_text())


def rewritten(folder: Path, content: object) -> None:
    (folder / "catalog.yaml").write_text(yaml.safe_dump(content))


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (("format",), 2, "format = 2: input should be 1"),
        (("variants", 0, "name"), "../../etc/passwd", "name = '../../etc/passwd'"),
        (("variants", 0, "accuracy"), 1.5, r"accuracy = 1.5: input should be less"),
        (("variants", 0, "accuracy"), float("nan"), "accuracy = nan"),
        (("variants", 0, "costs", "device", "energy_j"), -1.0, "energy_j = -1.0"),
        (("variants", 0, "costs", "device", "latency_ms"), float("inf"), "latency_ms = inf"),
        (("variants", 0, "costs"), {"moon": {}}, "costs.moon"),
        (("variants", 0, "bits"), 4, "bits = 4"),
        (("variants", 0, "sha256"), "0" * 64, "have changed since the catalog was built"),
        (("variants",), [], "variants"),
        (("surprise",), 1, "surprise"),
        (("input_size",), [0, 4], "input_size.0"),
    ],
)
def test_what_the_file_says_wrong_is_named(catalog, tmp_path, where, value, message) -> None:
    content = copied(catalog, tmp_path)
    target = content
    for key in where[:-1]:
        target = target[key]
    target[where[-1]] = value
    rewritten(tmp_path, content)
    with pytest.raises(CatalogError, match=message) as caught:
        read_catalog(tmp_path)
    assert str(tmp_path) in str(caught.value) and "cacheinf catalog build" in str(caught.value)


def test_files_that_are_missing_or_changed(catalog: CatalogFolder, tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match=r"catalog\.yaml cannot be read"):
        read_catalog(tmp_path)
    content = copied(catalog, tmp_path)
    path = tmp_path / f"{content['variants'][0]['name']}.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CatalogError, match="have changed since"):
        read_catalog(tmp_path)
    path.unlink()
    with pytest.raises(CatalogError, match="do not exist"):
        read_catalog(tmp_path)
    outside = tmp_path.parent / "outside.safetensors"
    outside.write_bytes(whole)
    path.symlink_to(outside)
    with pytest.raises(CatalogError, match="lead out of the catalog's folder"):
        read_catalog(tmp_path)


def test_a_catalog_can_be_read_without_its_weights(catalog: CatalogFolder, tmp_path: Path) -> None:
    """Catalogs may be read while frames wait, and hashing weights takes time per megabyte."""
    (tmp_path / "catalog.yaml").write_text((catalog.path / "catalog.yaml").read_text())
    assert read_catalog(tmp_path, compares=False).file == catalog.file
    with pytest.raises(CatalogError, match="do not exist"):
        read_catalog(tmp_path)


def test_weights_of_another_architecture(catalog: CatalogFolder, tmp_path: Path) -> None:
    content = copied(catalog, tmp_path)
    original = next(entry for entry in content["variants"] if entry["name"] == "original")
    original["changes"] = [{"technique": "fewer-kernels", "strength": 0.5, "layers": []}]
    content["variants"].append({**original, "name": "spare", "changes": []})
    (tmp_path / "spare.safetensors").write_bytes((tmp_path / "original.safetensors").read_bytes())
    rewritten(tmp_path, content)
    with pytest.raises(CatalogError, match="do not fit variant 'original'"):
        read_catalog(tmp_path).load("original")


def test_a_catalog_without_the_original(catalog: CatalogFolder, tmp_path: Path) -> None:
    content = copied(catalog, tmp_path)
    content["variants"] = [entry for entry in content["variants"] if entry["name"] != "original"]
    if not content["variants"]:
        pytest.skip("only the original is on the front")
    rewritten(tmp_path, content)
    with pytest.raises(CatalogError, match="the original is not among the variants"):
        read_catalog(tmp_path)


@given(text=st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("text")
    (folder / "catalog.yaml").write_text(text, encoding="utf-8", errors="replace")
    with pytest.raises(CatalogError):
        read_catalog(folder)
