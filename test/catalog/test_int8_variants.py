# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Variants in int8 use their own scales wherever they run on a CPU, and run on devices alone."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from catalogs import IN_INT8, OTHER, SMALL, made_catalog
from quantised import scales_of

from cacheinf_ros.catalog.build.catalog_frames import Sample
from cacheinf_ros.catalog.build.techniques import Recipe
from cacheinf_ros.catalog.build.variant_accuracy import Judge
from cacheinf_ros.catalog.catalog_folder import CatalogFolder, read_catalog
from cacheinf_ros.catalog.heads.shared_models import obstacle
from cacheinf_ros.catalog.serving.catalog_node_configs import CatalogConfig
from cacheinf_ros.catalog.serving.partitioned_models import SplitModels
from cacheinf_ros.catalog.variant import Cost, Place
from cacheinf_ros.catalog.variant_files import write_scales
from cacheinf_ros.disk_cache import digest
from cacheinf_ros.engine import Engine, EngineConfig, Mode, kernel_library
from cacheinf_ros.engine.quantisation import computes_int8, executed_graph, precision_of
from cacheinf_ros.errors import CatalogError, ConfigError
from cacheinf_ros.graph import Model, load_model, weight_bytes
from cacheinf_ros.graph.ir import Int8Conv, Levels
from cacheinf_ros.matching import MatcherName, MatchingConfig
from cacheinf_ros.matching.matching_config import IDENTICAL
from cacheinf_ros.offload import Identity
from cacheinf_ros.pipeline.dense_execution import half_precision_backends, may_quantise
from cacheinf_ros.pipeline.dense_stream import DenseStream
from cacheinf_ros.pipeline.map_producer import MapProducer

pytestmark = pytest.mark.skipif(kernel_library() is None, reason="int8 needs the compiled kernels")

IMAGE = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> CatalogFolder:
    return made_catalog(
        tmp_path_factory.mktemp("room"), "room", {Place.CLOUD: Cost(), Place.DEVICE: Cost()}, with_int8=True
    )


def outputs(model: Model, precision: str = "float32") -> tuple[str, np.ndarray]:
    engine = Engine(model, EngineConfig.checked(mode=Mode.DENSE, threads=1, precision=precision))
    (values,) = engine.run(IMAGE, None).outputs.values()
    return engine.kernel_name, np.array(values)


def test_it_is_computed_in_int8_whatever_precision_is_set(catalog: CatalogFolder) -> None:
    """From its files and from the stored graph the variant equals, bit for bit, the network in int8 with its scales."""
    in_floats = catalog.load(SMALL.name)
    loaded = catalog.load(IN_INT8.name)
    kernels, values = outputs(loaded, "int8")
    assert "int8" in kernels and not np.array_equal(values, outputs(in_floats)[1])
    np.testing.assert_allclose(values, outputs(in_floats)[1], rtol=0.1, atol=0.1)
    for again in (loaded, catalog.network(IN_INT8.name), catalog.network(IN_INT8.name)):
        for precision in ("float32", "bfloat16"):
            kernels, others = outputs(again, precision)
            assert "int8" in kernels and np.array_equal(values, others)


def test_its_cached_frames_are_as_dense_ones(catalog: CatalogFolder) -> None:
    model = catalog.network(IN_INT8.name)
    cached, dense = (Engine(model, EngineConfig.checked(mode=mode, threads=1)) for mode in (Mode.EXACT, Mode.DENSE))
    matching = MatchingConfig(matcher=MatcherName.IDENTITY, threshold=IDENTICAL)
    producer, shares = MapProducer(matching), []
    for number in range(4):
        image = IMAGE.copy()
        image[:10, :10] = number
        update = producer.link(image, number + 1, matching, mode=Mode.EXACT)
        found, expected = cached.run(image, update.cache_map), dense.run(image, None)
        shares.append(found.active_share)
        for name, value in expected.outputs.items():
            assert np.array_equal(found.outputs[name], value)
    assert max(shares[1:]) < 1


def test_its_accuracy_is_that_of_int8(catalog: CatalogFolder) -> None:
    """The scales are so small here that nothing is left of the pictures."""
    loaded = catalog.load(IN_INT8.name)
    assert loaded.scales is not None
    levels = {name: replace(each, scale=1e-6) for name, each in loaded.scales.levels.items()}
    model = replace(loaded, scales=replace(loaded.scales, levels=levels))
    images = [
        np.full((48, 64, 3), colour, np.uint8) for colour in ((0, 0, 0), (255, 0, 0), (0, 255, 255), (9, 99, 255))
    ]
    engine = Engine(model, EngineConfig.checked(mode=Mode.DENSE, threads=1))
    (name,) = (name for name, _ in model.graph.outputs)
    answered = [int(engine.run(image, None).outputs[name].argmax()) for image in images]
    judge = Judge(model, [Sample(image=each, class_id=found) for each, found in zip(images, answered, strict=True)])
    assert judge.accuracy_in_int8(model, 1) == 1.0 > judge.accuracy(model.module)


def test_in_bounded_mode_int8_is_what_others_are_judged_by(catalog: CatalogFolder) -> None:
    model = catalog.network(IN_INT8.name)
    config = EngineConfig.checked(mode=Mode.BOUNDED, threads=1, dense_precision="int8")
    notes: dict[str, str] = {}
    stream = DenseStream(model, config, notes.__setitem__)
    stream.wait()
    (values,) = stream.in_full_precision(IMAGE).outputs.values()
    assert np.array_equal(values, outputs(model)[1]) and "cacheinf_int8" in notes["dense_backend"]
    assert not may_quantise(model, config) and may_quantise(catalog.network(SMALL.name), config)
    assert not list(half_precision_backends(model, config, stream._of_float32.best, (), lambda: True))


def test_where_nothing_computes_in_int8_there_are_none(catalog: CatalogFolder) -> None:
    config = CatalogConfig.checked(catalogs=[str(catalog.path)])
    assert [entry.name for entry in config.read(int8=True)[0].file.variants] == ["original", "8bit", "int8"]
    assert [entry.name for entry in config.read()[0].file.variants] == ["original", "8bit"]
    assert computes_int8("cpu") and computes_int8("cpu:0") and not computes_int8("cuda")
    model = catalog.load(IN_INT8.name)
    on_gpu = EngineConfig.checked(device="cuda", precision="float16")
    assert precision_of(model, on_gpu).value == "float16" and executed_graph(model, on_gpu).tensors
    assert not any(spec.levels for spec in executed_graph(model, on_gpu).tensors.values())


def test_its_weights_take_a_quarter(catalog: CatalogFolder) -> None:
    """Convolutions of 3 to 8 and of 8 to 8 channels, 3x3, and the last layer; biases and units stay float32."""
    model = catalog.load(IN_INT8.name)
    graph = executed_graph(model, EngineConfig.checked(threads=1))
    in_int8 = [operator for operator in graph.operators if isinstance(operator, Int8Conv)]
    assert [operator.weight.numel() for operator in in_int8][:2] == [3 * 8 * 9, 8 * 8 * 9]
    saved = sum(3 * operator.weight.numel() - 4 * len(operator.weight_scale) for operator in in_int8)
    assert weight_bytes(graph) == weight_bytes(model.graph) - saved


def test_servers_compute_it_in_no_robots_name(catalog: CatalogFolder) -> None:
    """A variant with the same weights is found instead, and is computed with the server's own precision."""
    models = SplitModels(load_model(OTHER, input_size=(61, 47)), [catalog])
    found = models.find(Identity.of(catalog.load(IN_INT8.name)))
    assert found.scales is None and found.name.endswith(SMALL.name)


def test_what_contradicts_itself_is_refused(catalog: CatalogFolder, tmp_path: Path) -> None:
    entry = catalog.entry(IN_INT8.name)
    for wrong in ({"bits": 32}, {"costs": catalog.entry("original").costs}):
        with pytest.raises(ConfigError, match="runs on the device alone"):
            entry.changed(**wrong)
    folder = copied(catalog, tmp_path)
    file = folder / "catalog.yaml"
    file.write_text(file.read_text().replace(entry.scales_sha256, "''"))
    with pytest.raises(CatalogError, match="no SHA-256 of its scales"):
        read_catalog(folder)
    with pytest.raises(ValueError, match="32 bits"):
        Recipe(int8=True)


def test_it_shares_no_operators(catalog: CatalogFolder) -> None:
    one, other = catalog.load(IN_INT8.name), catalog.load(SMALL.name)
    assert "int8" in obstacle(one, other) and "int8" in obstacle(other, one) and not obstacle(other, other)


def copied(catalog: CatalogFolder, folder: Path) -> Path:
    shutil.copytree(catalog.path, folder / "copy")
    return folder / "copy"


def test_damaged_and_missing_scales_are_named(catalog: CatalogFolder, tmp_path: Path) -> None:
    folder = copied(catalog, tmp_path)
    path = folder / f"{IN_INT8.name}.scales.npz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(CatalogError, match=r"scales .* have changed since the catalog was built"):
        read_catalog(folder)
    path.unlink()
    with pytest.raises(CatalogError, match=r"scales .* do not exist"):
        read_catalog(folder)


@pytest.mark.parametrize("what", ["another network's", "none", "not finite", "packed", "a text"])
def test_scales_that_do_not_fit_are_refused(catalog: CatalogFolder, what: str, tmp_path: Path) -> None:
    """Hashes do not protect here, as whoever makes a catalog states them."""
    folder = copied(catalog, tmp_path)
    path = folder / f"{IN_INT8.name}.scales.npz"
    scales = scales_of(catalog.load("original"))
    name = next(operator.output for operator in catalog.load("original").graph.operators if hasattr(operator, "bias"))
    wrong = {"another network's": torch.ones(3), "not finite": torch.full((8,), torch.nan)}.get(what)
    old = catalog.entry(IN_INT8.name).scales_sha256
    if wrong is not None:
        scales.biases[name] = wrong  # type: ignore[index]
    if what == "a text":
        scales.levels[name] = levels = Levels(scale=0.5, zero=3)  # type: ignore[index]
        object.__setattr__(levels, "scale", "0.5")  # as a file may say it
    write_scales(folder, IN_INT8.name, scales)
    if what == "none":
        path.write_bytes(b"no archive")
    if what == "packed":
        with np.load(path) as content:
            np.savez_compressed(path, **content)
    new = digest(path)
    file = folder / "catalog.yaml"
    file.write_text(file.read_text().replace(old, new))
    found = read_catalog(folder)
    for load in (found.load, found.network):
        with pytest.raises(CatalogError, match=r"scales .* do not fit variant"):
            load(IN_INT8.name)
