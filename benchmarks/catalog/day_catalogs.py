# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The catalogs of a day in the life, and what a robot without catalogs has in their place."""

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
"""Built-in networks and sizes of their input, by what the models are called here."""
POWER = PowerModel(idle_w=0.0)  # what the robot draws at rest is no request's
PRICES = PriceConfig(server_speedup=1.0, link_mbit_s=400.0)  # robot and server are this machine


def build_catalogs(folder: Path, progress: Callable[[str], None], *, int8: bool = False) -> list[Path]:
    """Small catalogs of :data:`MODELS`: fewer kernels, hardly tuned.

    Args:
        int8: whether there are variants that are computed in int8 as well.
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
    """The variant that nothing was done to; every catalog has it."""
    return next(entry for entry in folder.file.variants if entry.recipe == Recipe())


def without_variants(folder: CatalogFolder, path: Path) -> CatalogFolder:
    """Write the catalog with nothing but the original: a robot without catalogs."""
    original = original_of(folder)
    path.mkdir(parents=True)
    shutil.copy(weights_file(folder.path, original.name), path)
    write_catalog(path, folder.file.model_copy(update={"variants": (original,), "dominated": ()}))
    return read_catalog(path)
