# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The files of a catalog's variants: the weights of each, and the scales of those that are computed in int8."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from cacheinf_ros.catalog.stored_files import readable_digest
from cacheinf_ros.disk_cache import digest, replacing
from cacheinf_ros.engine.quantisation import scales_bytes
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import Scales

REMEDY = "build it anew with `cacheinf catalog build`"
"""What to do about an unusable catalog, for error messages."""


def write_weights(folder: Path, name: str, packed: Mapping[str, torch.Tensor]) -> str:
    """Write a variant's weights, making the folder where needed, and return the file's SHA-256.

    Raises:
        CatalogError: the weights cannot be written.
    """
    path = weights_file(folder, name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as unfinished:
            save_file(dict(packed), unfinished)
        return readable_digest(path)
    except (OSError, SafetensorError) as error:
        raise CatalogError(f"weights {path} cannot be written: {error}; name another folder") from None


def write_scales(folder: Path, name: str, scales: Scales) -> str:
    """Write the scales of a variant into an existing folder, and return the file's SHA-256.

    Raises:
        CatalogError: the scales cannot be written.
    """
    path = scales_file(folder, name)
    try:
        with replacing(path) as unfinished:
            unfinished.write_bytes(scales_bytes(scales))
        return digest(path)
    except OSError as error:
        raise CatalogError(f"scales {path} cannot be written: {error}; name another folder") from None


def weights_file(folder: Path, name: str) -> Path:
    """Return the path of a variant's weights."""
    return folder / f"{name}.safetensors"


def scales_file(folder: Path, name: str) -> Path:
    """Return the path of a variant's scales, which exist where it is computed in int8."""
    return folder / f"{name}.scales.npz"


def intact_weights(folder: Path, name: str, sha256: str) -> Path:
    """Return the file with a variant's weights; raises :class:`CatalogError` where missing or changed."""
    return _checked("weights", weights_file(folder, name), name, sha256)


def intact_scales(folder: Path, name: str, sha256: str) -> Path:
    """Return the file with a variant's scales; raises :class:`CatalogError` where missing or changed."""
    return _checked("scales", scales_file(folder, name), name, sha256)


def _checked(what: str, path: Path, variant: str, sha256: str) -> Path:
    if not path.is_file():
        raise CatalogError(f"{what} {path} of variant {variant!r} do not exist; {REMEDY}")
    if path.resolve().parent != path.parent.resolve():
        raise CatalogError(f"{what} {path} lead out of the catalog's folder; {REMEDY}")
    try:
        is_same = digest(path) == sha256
    except OSError as error:
        raise CatalogError(f"{what} {path} of variant {variant!r} cannot be read: {error}; {REMEDY}") from None
    if not is_same:
        raise CatalogError(f"{what} {path} have changed since the catalog was built; {REMEDY}")
    return path
