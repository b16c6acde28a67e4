# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Stored files that are cut off at every 4 KiB or have flipped bits are read as written or count as damaged.

Files that people may edit are also cut off after each line; a flipped bit there is noticed, or leaves the hashes that
the file states as they were.
"""

from __future__ import annotations

import logging
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from catalogs import TINY, made_catalog
from networks.lowered import graph_of
from networks.random_graphs import random_network

from cacheinf_ros.bench.kept_answers import KeptAnswer, KeptAnswers
from cacheinf_ros.catalog.catalog_folder import CatalogFolder, read_catalog
from cacheinf_ros.catalog.heads.attribute_heads import Head
from cacheinf_ros.catalog.heads.head_folder import HeadsFile, _head, write_heads
from cacheinf_ros.catalog.linear import Linear
from cacheinf_ros.catalog.specialists.specialist_folder import SpecialiseFolder, read_specialise
from cacheinf_ros.catalog.stored_files import read_yaml
from cacheinf_ros.catalog.trunks import trunk_model
from cacheinf_ros.catalog.variant import Cost, Place
from cacheinf_ros.disk_cache import KeptFile
from cacheinf_ros.engine.bounded.calibration import Calibration
from cacheinf_ros.engine.bounded.curve import CurvePoint
from cacheinf_ros.engine.bounded.store import load_calibration, save_calibration
from cacheinf_ros.engine.delta_threshold import Criterion, DeltaThreshold
from cacheinf_ros.engine.quality import OutputScale
from cacheinf_ros.engine.quantisation.scales import keep_scales, kept_scales
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import Scales, load_model
from cacheinf_ros.graph.graph_cache import keep, kept_graph
from cacheinf_ros.graph.identity import graph_hash
from cacheinf_ros.graph.ir import Conv, Levels

TIMES = int(os.environ.get("CACHEINF_DAMAGED", "200"))
"""The number of flipped bits that are tried for each store."""
PAGE = 4096
COLOURS = "colours"
"""The name of the catalog with specialists that is written into each test's folder."""


@dataclass(frozen=True, kw_only=True)
class Store:
    """A stored file, and how to read it: None where it counts as damaged.

    Attributes:
        read: reads the content. For text only the hashes that it states: all other values are believed.
        is_text: whether people may edit the file.
    """

    path: Path
    read: Callable[[], object]
    is_text: bool = False


def graphs(folder: Path) -> Store:
    network = random_network(3)
    path = folder / "graph.safetensors"
    assert keep(graph_of(network, network.input_size), path)

    def read() -> str | None:
        graph = kept_graph(path)
        return None if graph is None else graph_hash(graph)

    return Store(path=path, read=read)


def calibrations(folder: Path) -> Store:
    path = folder / "calibration.npz"
    graph = load_model(TINY).graph
    deltas = {name: DeltaThreshold(threshold=0.5, criterion=Criterion.ENERGY, weight=None) for name in graph.tensors}
    points = tuple(
        CurvePoint(factor=float(i), engine_error=0.1, missed_change=0.2, milliseconds=3.0, active_share=0.4)
        for i in range(100)
    )
    save_calibration(Calibration(base=deltas, curve=points, output_scale=OutputScale(deviations=(1.0,))), path)
    return Store(path=path, read=lambda: (found := load_calibration(path, graph)) and (found.curve, found.output_scale))


def tables(folder: Path) -> Store:
    """Return a store that is written like cost models and schedules."""
    file = KeptFile(path=folder / "table.json", what="table", remedy="solving")
    assert file.write_json({"rows": list(range(5000))})
    return Store(path=file.path, read=lambda: file.read_json(dict))


def scales(folder: Path) -> Store:
    model = load_model(TINY)
    convs = [operator for operator in model.graph.operators if isinstance(operator, Conv)]
    values = {operator.output: torch.ones(len(operator.bias)) for operator in convs}
    levels = {name: Levels(scale=0.5, zero=i) for i, name in enumerate(model.graph.tensors)}
    path = keep_scales(model, Scales(levels=levels, biases=values, weight_scales=values))
    assert path is not None
    return Store(path=path, read=lambda: (found := kept_scales(model)) and found.levels)


def answers_to_frames(folder: Path) -> Store:
    image = np.zeros((48, 64, 3), np.uint8)
    kept = KeptAnswers(folder, load_model(TINY), [image], "")
    decision = np.random.default_rng(0).normal(size=(40, 50))
    kept.write(0, {"dense": KeptAnswer(decision=decision, took_ms=1.0)})
    (path,) = folder.rglob("*.npz")
    return Store(path=path, read=lambda: kept.read(0).keys() or None)


def weights_of_a_catalog(folder: Path) -> Store:
    catalog = made_catalog(folder / "catalog", "room", {Place.DEVICE: Cost()})
    (path, *_) = sorted(catalog.path.glob("*.safetensors"))
    return Store(path=path, read=unless_refused(lambda: graph_hash(catalog.load(path.stem).graph)))


def catalog_yaml(folder: Path) -> Store:
    def stated() -> object:
        return [(entry.name, entry.sha256) for entry in read_catalog(folder / COLOURS).file.variants]

    return Store(path=folder / COLOURS / "catalog.yaml", read=unless_refused(stated), is_text=True)


def specialise_yaml(folder: Path) -> Store:
    return specialise(folder, "specialise.yaml", is_text=True)


def training_set(folder: Path) -> Store:
    return specialise(folder, "trunk-1.safetensors")


def answers_of_variants(folder: Path) -> Store:
    return specialise(folder, "answers.safetensors")


def specialise(folder: Path, name: str, *, is_text: bool = False) -> Store:
    catalog = read_catalog(folder / COLOURS)

    def stated() -> object:
        found = read_specialise(catalog)
        return found and (found.file.answers, [trunk.sha256 for trunk in found.file.trunks])

    return Store(path=catalog.path / "specialise" / name, read=unless_refused(stated), is_text=is_text)


def heads_yaml(folder: Path) -> Store:
    return heads(folder, "heads.yaml", is_text=True)


def weights_of_a_head(folder: Path) -> Store:
    return heads(folder, "hue.safetensors")


def heads(folder: Path, name: str, *, is_text: bool = False) -> Store:
    trunk = trunk_model(load_model(TINY))  # once, unlike read_heads: that takes longer than all else
    layer = Linear(weight=np.ones((2, 8), np.float32), bias=np.ones(2, np.float32))
    head = Head(name="hue", labels=("dark", "bright"), layer=layer, accuracy=0.5, samples=4)
    write_heads(folder, (head,), trunk, model=TINY)

    def stated() -> object:
        entries = read_yaml(folder / "heads.yaml", HeadsFile, "").heads
        return [(_head(folder, entry, trunk).name, entry.sha256) for entry in entries]

    return Store(path=folder / name, read=unless_refused(stated), is_text=is_text)


def unless_refused(read: Callable[[], object]) -> Callable[[], object]:
    def found() -> object:
        try:
            return read()
        except CatalogError:
            return None

    return found


STORES = (
    *(graphs, calibrations, tables, scales, answers_to_frames),
    *(weights_of_a_catalog, training_set, answers_of_variants, weights_of_a_head),
    *(catalog_yaml, specialise_yaml, heads_yaml),
)


@pytest.fixture(params=STORES, ids=lambda make: make.__name__)
def store(
    request: pytest.FixtureRequest, coloured: tuple[CatalogFolder, SpecialiseFolder], tmp_path: Path
) -> Iterator[Store]:
    shutil.copytree(coloured[0].path, tmp_path / COLOURS)
    logging.disable(logging.WARNING)  # each damage would log a warning
    yield request.param(tmp_path)
    logging.disable(logging.NOTSET)


def test_damage_is_noticed(store: Store) -> None:
    whole, rng = store.path.read_bytes(), random.Random(0)
    stated = store.read()
    assert stated is not None
    for length in cuts(whole, store):
        store.path.write_bytes(whole[:length])
        assert store.read() is None, f"cut off at {length} of {len(whole)}"
    for _ in range(TIMES):
        damaged, at = bytearray(whole), rng.randrange(8 * len(whole))
        damaged[at // 8] ^= 1 << at % 8
        store.path.write_bytes(damaged)
        found = store.read()
        assert found is None or (store.is_text and found == stated), f"bit {at} flipped"
    store.path.write_bytes(whole)
    assert store.read() is not None


def cuts(whole: bytes, store: Store) -> list[int]:
    lines = [match.end() for match in re.finditer(b"\n", whole[:-1])] if store.is_text else []
    return [*range(0, len(whole), PAGE), *lines]
