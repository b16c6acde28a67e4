# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Builds the catalogs of a day in the life, and the catalogs of originals that a robot without variants has instead."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from cacheinf_ros.catalog.build.catalog_builder import BuildConditions, Builder
from cacheinf_ros.catalog.build.catalog_frames import BUILT_IN, load_data
from cacheinf_ros.catalog.build.finetune import TuningConfig
from cacheinf_ros.catalog.build.techniques import Recipe, Technique
from cacheinf_ros.catalog.catalog_folder import CatalogFolder, VariantEntry, read_catalog, write_catalog
from cacheinf_ros.catalog.prices import PriceConfig
from cacheinf_ros.catalog.variant_files import weights_file
from cacheinf_ros.energy.power_model import PowerModel
from cacheinf_ros.graph import load_model

MODELS = {
    "objects": ("scenenet", (480, 640)),
    "objects_small": ("scenenet", (240, 320)),
    "place": ("scenenames", (480, 640)),
    "place_small": ("scenenames", (240, 320)),
}
"""The built-in networks and the (height, width) of their input, by the names that the models have here."""
POWER = PowerModel(idle_w=0.0)  # what the robot draws at rest is not charged to a request
PRICES = PriceConfig(server_speedup=1.0, link_mbit_s=400.0)  # robot and server are this machine


def build_catalogs(folder: Path, progress: Callable[[str], None], *, int8: bool = False) -> list[Path]:
    """Build small catalogs of :data:`MODELS`, with fewer kernels and hardly any tuning; return their folders.

    Args:
        int8: whether to add variants that are computed in int8.
    """
    paths = []
    for name, (reference, size) in MODELS.items():
        progress(f"building the catalog of {name}")
        model = load_model(reference, input_size=size)
        data = load_data(model.card, [BUILT_IN], [BUILT_IN], (16, 30))
        tuning = TuningConfig(steps=20)
        conditions = BuildConditions(tuning=tuning, prices=PRICES, power=POWER)
        builder = Builder(reference, model, data, folder / name, conditions)
        built = builder.build((Technique.FEWER_KERNELS,), (32,), int8=int8)
        write_catalog(built.path, built.file.model_copy(update={"name": name}))
        paths.append(built.path)
    return paths


def original_of(folder: CatalogFolder) -> VariantEntry:
    """Return the catalog's unmodified variant; every catalog has one."""
    return next(entry for entry in folder.file.variants if entry.recipe == Recipe())


def without_variants(folder: CatalogFolder, path: Path) -> CatalogFolder:
    """Write a copy of the catalog that has only the original: this is what a robot without variants has."""
    original = original_of(folder)
    path.mkdir(parents=True)
    shutil.copy(weights_file(folder.path, original.name), path)
    write_catalog(path, folder.file.model_copy(update={"variants": (original,), "dominated": ()}))
    return read_catalog(path)
