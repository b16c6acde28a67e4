# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What is kept on disk, cut off at every 4 KiB and with bits flipped, is as it was written or counts as damaged."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from catalogs import made_catalog
from networks.lowered import graph_of
from networks.random_graphs import random_network

from cacheinf_ros.catalog.variant import Cost, Place
from cacheinf_ros.disk_cache import KeptFile
from cacheinf_ros.engine.bounded.calibration import Calibration
from cacheinf_ros.engine.bounded.curve import CurvePoint
from cacheinf_ros.engine.bounded.store import load_calibration, save_calibration
from cacheinf_ros.engine.delta_threshold import Criterion, DeltaThreshold
from cacheinf_ros.engine.quality import OutputScale
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph.graph_cache import keep, kept_graph
from cacheinf_ros.graph.identity import graph_hash

TIMES = int(os.environ.get("CACHEINF_DAMAGED", "200"))
"""Flipped bits for each store."""
PAGE = 4096


@dataclass(frozen=True, kw_only=True)
class Store:
    """A file, and what tells its content; None where it counts as damaged."""

    path: Path
    read: Callable[[], object]


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
    deltas = {f"conv{i}": DeltaThreshold(threshold=0.5, criterion=Criterion.ENERGY, weight=None) for i in range(100)}
    point = CurvePoint(factor=1.0, engine_error=0.1, missed_change=0.2, milliseconds=3.0, active_share=0.4)
    save_calibration(Calibration(base=deltas, curve=(point,), output_scale=OutputScale(deviations=(1.0,))), path)
    return Store(path=path, read=lambda: (found := load_calibration(path)) and (found.curve, found.output_scale))


def tables(folder: Path) -> Store:
    """As cost models and schedules are."""
    file = KeptFile(path=folder / "table.json", what="table", remedy="solving")
    assert file.write_json({"rows": list(range(5000))})
    return Store(path=file.path, read=lambda: file.read_json(dict))


def weights_of_a_catalog(folder: Path) -> Store:
    catalog = made_catalog(folder / "catalog", "room", {Place.DEVICE: Cost()})
    (path, *_) = sorted(catalog.path.glob("*.safetensors"))

    def read() -> object:
        try:
            return graph_hash(catalog.load(path.stem).graph)
        except CatalogError:
            return None

    return Store(path=path, read=read)


@pytest.fixture(params=[graphs, calibrations, tables, weights_of_a_catalog], ids=lambda make: make.__name__)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    logging.disable(logging.WARNING)  # one for each damage
    yield request.param(tmp_path)
    logging.disable(logging.NOTSET)


def test_damage_is_noticed(store: Store) -> None:
    whole, rng = store.path.read_bytes(), random.Random(0)
    assert store.read() is not None
    for length in range(0, len(whole), PAGE):
        store.path.write_bytes(whole[:length])
        assert store.read() is None, f"cut off at {length} of {len(whole)}"
    for _ in range(TIMES):
        damaged, at = bytearray(whole), rng.randrange(8 * len(whole))
        damaged[at // 8] ^= 1 << at % 8
        store.path.write_bytes(damaged)
        assert store.read() is None, f"bit {at} flipped"
    store.path.write_bytes(whole)
    assert store.read() is not None
