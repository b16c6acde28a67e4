# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Variants are exported once per machine, and give the same results from then on."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from catalogs import TINY, made_catalog

from cacheinf_ros.catalog.catalog_folder import CatalogFolder
from cacheinf_ros.catalog.variant import Cost, Place
from cacheinf_ros.engine import Engine, EngineConfig, Mode
from cacheinf_ros.errors import CatalogError, ModelError
from cacheinf_ros.graph import graph_cache as kept
from cacheinf_ros.graph import load_model
from cacheinf_ros.graph.graph_cache import keep, kept_file, kept_graph
from cacheinf_ros.graph.identity import graph_hash
from cacheinf_ros.graph.ir import Conv, Pointwise, TensorRef


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "cacheinf_ros" / "graphs"


@pytest.fixture
def catalog(tmp_path: Path, own_cache: Path) -> CatalogFolder:
    source, name = TINY.split(":")
    moved = tmp_path / "network.py"
    moved.write_text(Path(source).read_text())
    return made_catalog(tmp_path / "catalog", "tiny", {Place.DEVICE: Cost()}, f"{moved}:{name}")


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*"))


def test_a_variant_is_exported_once(catalog: CatalogFolder, own_cache: Path, tmp_path: Path) -> None:
    image = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
    config = EngineConfig(mode=Mode.DENSE)
    right = {name: catalog.load(name) for name in ("original", "8bit")}
    first = {name: catalog.network(name) for name in right}
    assert len(files(own_cache)) == 2
    (tmp_path / "network.py").unlink()  # nothing is left to export
    with pytest.raises(ModelError):
        catalog.load("original")
    for name, model in right.items():
        expected = Engine(model, config).run(image, None).outputs
        for network in (first[name], catalog.network(name)):
            assert (network.name, network.card) == (model.name, model.card)
            outputs = Engine(network, config).run(image, None).outputs
            assert all(np.array_equal(outputs[output], expected[output]) for output in expected)
    assert graph_hash(catalog.network("8bit").graph) != graph_hash(catalog.network("original").graph)


def test_preparing_says_what_it_does_and_does_it_once(catalog: CatalogFolder, own_cache: Path) -> None:
    said: list[str] = []
    catalog.network("8bit")
    catalog.prepare(said.append)
    assert said == ["preparing 1 variants of tiny, once on this machine"]
    assert len(files(own_cache)) == 2
    catalog.prepare(said.append)
    assert len(said) == 1


def test_what_is_damaged_is_exported_anew(
    catalog: CatalogFolder, own_cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = graph_hash(catalog.network("original").graph)
    (path,) = files(own_cache)
    path.write_bytes(path.read_bytes()[:-1])
    with caplog.at_level(logging.WARNING):
        assert graph_hash(catalog.network("original").graph) == expected
    assert f"{path} holds no graph" in caplog.text and "exporting anew" in caplog.text
    assert kept_graph(path) is not None


def test_a_graph_for_pictures_of_another_size_is_refused(
    catalog: CatalogFolder, own_cache: Path, tmp_path: Path
) -> None:
    """It is whole, and of the same network: only the catalog knows what size was measured."""
    expected = graph_hash(catalog.network("original").graph)
    (path,) = files(own_cache)
    higher = tmp_path / "higher.py"
    higher.write_text((tmp_path / "network.py").read_text().replace("(48, 64)", "(64, 64)"))
    assert keep(load_model(f"{higher}:tiny").graph, path)
    with pytest.raises(CatalogError, match=f"{path} is for pictures of another size than catalog {catalog.path} says"):
        catalog.network("original")
    path.unlink()
    assert graph_hash(catalog.network("original").graph) == expected


def test_a_flipped_bit_of_a_weight_is_noticed(own_cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    graph, path = load_model(TINY).graph, kept_file("tiny")
    assert keep(graph, path)
    damaged = bytearray(path.read_bytes())
    damaged[-2] ^= 1
    path.write_bytes(damaged)
    with caplog.at_level(logging.WARNING):
        assert kept_graph(path) is None
    assert str(path) in caplog.text


def test_what_is_replaced_while_it_is_read_stays_readable(own_cache: Path) -> None:
    graph, path = load_model(TINY).graph, kept_file("tiny")
    assert kept_graph(path) is None
    assert keep(graph, path)
    found = kept_graph(path)
    assert found is not None
    zeros = tuple(replace(o, weight=torch.zeros_like(o.weight)) if isinstance(o, Conv) else o for o in graph.operators)
    assert keep(replace(graph, operators=zeros), path)
    again = kept_graph(path)
    assert again is not None
    assert graph_hash(found) == graph_hash(graph) != graph_hash(again)


def test_a_graph_that_cannot_be_encoded_leaves_no_file(own_cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    graph = load_model(TINY).graph
    call = Pointwise(name="made", inputs=("image",), output="made", call=max, arguments=(TensorRef("image"),))
    with caplog.at_level(logging.WARNING):
        assert not keep(replace(graph, operators=(*graph.operators, call)), kept_file("tiny"))
    assert "exported anew each time" in caplog.text and not files(own_cache)


def test_a_folder_that_cannot_be_written_costs_time_only(
    catalog: CatalogFolder, own_cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own_cache.parent.mkdir(parents=True)
    own_cache.write_text("a file")
    with caplog.at_level(logging.WARNING):
        assert catalog.network("original").graph.operators
    assert "cannot be kept" in caplog.text


def test_the_least_recently_used_go_first(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = load_model(TINY).graph
    paths = [kept_file(key) for key in "abcd"]
    assert keep(graph, paths[0])
    monkeypatch.setattr(kept, "MOST_BYTES", 3 * paths[0].stat().st_size)
    assert keep(graph, paths[1]) and keep(graph, paths[2])
    for path, age in zip(paths, (3, 2, 1), strict=False):
        os.utime(path, (0, 10**9 - age))
    assert kept_graph(paths[0]) is not None
    assert keep(graph, paths[3])
    assert files(own_cache) == sorted((paths[0], paths[2], paths[3]))
    monkeypatch.setattr(kept, "MOST_BYTES", 0)
    assert keep(graph, paths[1])
    assert files(own_cache) == [paths[1]]
