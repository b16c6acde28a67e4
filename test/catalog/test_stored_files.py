# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Files of catalogs, specialists and heads are replaced as a whole, or stay as they were."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from catalogs import TINY

from cacheinf_ros.catalog.catalog_folder import CatalogFolder, write_catalog
from cacheinf_ros.catalog.heads.attribute_heads import Head
from cacheinf_ros.catalog.heads.head_folder import write_heads
from cacheinf_ros.catalog.linear import Linear
from cacheinf_ros.catalog.specialists.specialist_folder import SpecialiseFolder, write_samples, write_specialise
from cacheinf_ros.catalog.specialists.training_set import load_training_set
from cacheinf_ros.catalog.trunks import trunk_model
from cacheinf_ros.catalog.variant_files import write_weights
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import load_model


def rewritten_catalog(catalog: CatalogFolder, specialise: SpecialiseFolder) -> None:
    write_catalog(catalog.path, catalog.file.model_copy(update={"name": "other"}))


def rewritten_weights(catalog: CatalogFolder, specialise: SpecialiseFolder) -> None:
    write_weights(catalog.path, "original", {"other": torch.zeros(3)})


def rewritten_specialise(catalog: CatalogFolder, specialise: SpecialiseFolder) -> None:
    write_specialise(catalog, specialise.file.model_copy(update={"data": "other"}))


def rewritten_samples(catalog: CatalogFolder, specialise: SpecialiseFolder) -> None:
    trunk = trunk_model(catalog.load("original"), "relu")
    found = load_training_set(specialise.path / "trunk-1.safetensors", trunk)
    write_samples(catalog, [replace(found, features=found.features + 1)], {"original": found.labels})


def rewritten_heads(catalog: CatalogFolder, specialise: SpecialiseFolder) -> None:
    layer = Linear(weight=np.ones((2, 8), np.float32), bias=np.ones(2, np.float32))
    head = Head(name="original", labels=("a", "b"), layer=layer, accuracy=0.5, samples=1)
    write_heads(catalog.path, (head,), trunk_model(load_model(TINY)), model=TINY)


@pytest.mark.parametrize(
    "write", [rewritten_catalog, rewritten_weights, rewritten_specialise, rewritten_samples, rewritten_heads]
)
def test_files_are_written_aside(
    write: Callable[[CatalogFolder, SpecialiseFolder], None],
    coloured: tuple[CatalogFolder, SpecialiseFolder],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The folder's files stay untouched until the new file is complete and takes its place."""
    shutil.copytree(coloured[0].path, tmp_path / "copy")
    catalog = replace(coloured[0], path=tmp_path / "copy")
    specialise = replace(coloured[1], path=tmp_path / "copy" / "specialise")
    before = contents(tmp_path)

    def full(path: Path, target: Path) -> None:
        assert path.stat().st_size and contents(tmp_path).items() >= before.items()
        raise OSError("the disk is full")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(CatalogError, match=r"cannot be written.*the disk is full"):
        write(catalog, specialise)
    assert contents(tmp_path) == before


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
