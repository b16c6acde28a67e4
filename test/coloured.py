# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Pictures of one colour each, for the network that names colours, and a catalog of it with specialists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from catalogs import made_catalog
from networks.colours import CORNERS
from numpy.typing import NDArray

from cacheinf_ros.catalog.build.techniques import Change, Recipe, Technique
from cacheinf_ros.catalog.catalog_folder import CatalogFolder
from cacheinf_ros.catalog.labelled_pictures import Labelled
from cacheinf_ros.catalog.specialists.specialist_folder import (
    PairEntry,
    SpecialiseFile,
    SpecialiseFolder,
    TrunkCut,
    TrunkEntry,
    UsefulTrunk,
    write_samples,
    write_specialise,
)
from cacheinf_ros.catalog.specialists.training_set import training_sets
from cacheinf_ros.catalog.trunks import trunk_model
from cacheinf_ros.catalog.variant import Cost, Place

COLOURS = str(Path(__file__).parent / "networks" / "colours.yaml")
LABELS = ("black", "blue", "green", "cyan", "red", "magenta", "yellow", "white")
TRUNK_BYTES = 5000
SHALLOW = Recipe(changes=(Change(technique=Technique.FEWER_LAYERS, strength=1, layers=("4",)),))
"""A variant without the last convolution of the network that names colours, which changes nothing in its answers."""
_SIZE = (48, 64)


def picture(class_id: int, seed: int) -> NDArray[np.uint8]:
    """Return a noisy picture of one colour, uint8 [48, 64, 3], BGR."""
    rng = np.random.default_rng(seed)
    red, green, blue = (200 if is_on else 55 for is_on in CORNERS[class_id])
    noisy = rng.normal((blue, green, red), 25, (*_SIZE, 3))
    return np.clip(noisy, 0, 255).astype(np.uint8)


def samples(per_class: int = 32) -> Iterator[Labelled]:
    """Yield labelled pictures of all colours; every fourth one is held out."""
    for class_id in range(len(LABELS)):
        for number in range(per_class):
            image = picture(class_id, 1000 * class_id + number)
            yield Labelled(image=image, classes={"colour": class_id}, held_out=number % 4 == 3)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread: with more threads than idle processors so small a network takes much longer."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def made_specialise(
    folder: Path, name: str = "colours", trunk_of: str = "", recipes: Sequence[Recipe] = ()
) -> tuple[CatalogFolder, SpecialiseFolder]:
    """Write a catalog with its variants, and specialists for seven of eight colours; its times are made up.

    Args:
        trunk_of: the variant from which the only small trunk is cut; "": the original.
        recipes: variants that are made besides the original and one of 8 bits.
    """
    costs = {Place.DEVICE: Cost(energy_j=1.0, memory_bytes=10_000, load_energy_j=1.0)}
    catalog = made_catalog(folder, name, costs, COLOURS, recipes=recipes)
    variants = {entry.name: catalog.load(entry.name) for entry in catalog.file.variants}
    original, cut = variants["original"], TrunkCut(tensor="relu", variant=trunk_of)
    trunk = trunk_model(variants[trunk_of or "original"], cut.tensor)
    with one_thread():
        found = training_sets(original, [trunk, *variants.values()], samples(), "colour")
    answers = {name: each.features.argmax(axis=1) for name, each in zip(variants, found[1:], strict=True)}
    (sha256,), of_answers = write_samples(catalog, found[:1], answers)
    useful = UsefulTrunk(**cut.model_dump(), accuracy=1.0, ms=0.6)
    file = SpecialiseFile(
        format=1,
        classes=len(LABELS),
        samples=len(found[0].labels),
        data="made up",
        variant_ms=dict.fromkeys(variants, 2.0),
        answers=of_answers,
        trunks=(TrunkEntry(**cut.model_dump(), ms=0.5, memory_bytes=TRUNK_BYTES, sha256=sha256),),
        pairs=tuple(PairEntry(n=7, p=p, accuracy=1.0, trunks=(useful,)) for p in (0.95, 0.9)),
    )
    return catalog, write_specialise(catalog, file)
