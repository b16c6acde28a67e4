# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Catalogs of the tiny network with costs that tests choose, built without measuring anything."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from quantised import scales_of

from cacheinf_ros.catalog.build.techniques import Recipe, pack, perform, unpack
from cacheinf_ros.catalog.catalog_folder import (
    CatalogFile,
    CatalogFolder,
    VariantEntry,
    cost_entries,
    read_catalog,
    write_catalog,
)
from cacheinf_ros.catalog.variant import Cost, Place
from cacheinf_ros.catalog.variant_files import write_scales, write_weights
from cacheinf_ros.graph import Model, load_model, model_of
from cacheinf_ros.graph.identity import graph_hash
from cacheinf_ros.harness import NodeCommand

TINY = f"{Path(__file__).parent / 'networks' / 'tiny.py'}:tiny"
"""The reference of a network with five classes for frames of 48x64 pixels."""
OTHER = f"{Path(__file__).parent / 'networks' / 'small.py'}:mixed"
"""The reference of another model, for which there is no catalog."""
MODELS = ("left", "right")
"""The names of the catalogs of :func:`two_catalogs`."""
ORIGINAL, SMALL, IN_INT8 = Recipe(), Recipe(bits=8), Recipe(bits=8, int8=True)


def made_catalog(
    folder: Path,
    name: str,
    costs: Mapping[Place, Cost],
    reference: str = TINY,
    *,
    with_int8: bool = False,
    recipes: Sequence[Recipe] = (),
) -> CatalogFolder:
    """Write a catalog of the original and of a less accurate variant with fewer bits; both cost the same.

    Args:
        with_int8: whether there is a third variant, less accurate still, that is computed in int8 and costs nothing.
        recipes: variants that are made besides, each less accurate than the one before it.
    """
    model = load_model(reference)
    variants = [_variant(folder, model, ORIGINAL, 0.9, costs), _variant(folder, model, SMALL, 0.8, costs)]
    if with_int8:
        entry = _variant(folder, model, IN_INT8, 0.7, {Place.DEVICE: Cost()})
        variants.append(entry.changed(int8=True, scales_sha256=write_scales(folder, entry.name, scales_of(model))))
    for number, recipe in enumerate(recipes):
        variants.append(_variant(folder, model, recipe, 0.6 - number / 100, costs))
    size = model.input_size
    write_catalog(
        folder,
        CatalogFile(
            format=1, name=name, model=reference, input_size=size, measure="", data="", variants=tuple(variants)
        ),
    )
    return read_catalog(folder)


def two_catalogs(factory: pytest.TempPathFactory, costs: Mapping[Place, Cost]) -> list[str]:
    """Write a catalog for each of :data:`MODELS`, and return their folders."""
    return [str(made_catalog(factory.mktemp(name), name, costs).path) for name in MODELS]


def catalog_command(catalogs: Sequence[str], **parameters: Any) -> NodeCommand:
    """Return the command of a node that serves these catalogs, on the image and result topics of the tests' station."""
    common = {"image_topic": "camera/image", "image_reliability": "reliable", "result_topic": "results", "threads": 1}
    return NodeCommand(executable="catalog_inference", parameters={"catalogs": catalogs, **common, **parameters})


def _variant(folder: Path, model: Model, recipe: Recipe, accuracy: float, costs: Mapping[Place, Cost]) -> VariantEntry:
    rounded = perform(copy.deepcopy(model.module), recipe.changes, model.input_size)
    packed = pack(rounded.state_dict(), recipe.bits)
    rounded.load_state_dict(unpack(packed))
    return VariantEntry(
        name=recipe.name,
        accuracy=accuracy,
        bits=recipe.bits,
        changes=recipe.changes,
        stored_bytes=1,
        graph=graph_hash(model_of(rounded, model.card).graph),
        sha256=write_weights(folder, recipe.name, packed),
        costs=cost_entries(costs),
    )
