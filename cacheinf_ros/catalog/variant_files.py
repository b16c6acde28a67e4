# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The files of a catalog's variants: weights of each, and scales of those that are computed in int8."""

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
"""What to do about a catalog that is unusable."""


def write_weights(folder: Path, name: str, packed: Mapping[str, torch.Tensor]) -> str:
    """Write a variant's weights; the folder is made. Returns the file's SHA-256.

    Raises:
        CatalogError: they cannot be written.
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
    """Write the scales of a variant, into a folder that is there. Returns the file's SHA-256.

    Raises:
        CatalogError: they cannot be written.
    """
    path = scales_file(folder, name)
    try:
        with replacing(path) as unfinished:
            unfinished.write_bytes(scales_bytes(scales))
        return digest(path)
    except OSError as error:
        raise CatalogError(f"scales {path} cannot be written: {error}; name another folder") from None


def weights_file(folder: Path, name: str) -> Path:
    """Where a variant's weights lie."""
    return folder / f"{name}.safetensors"


def scales_file(folder: Path, name: str) -> Path:
    """Where a variant's scales lie, if it is computed in int8."""
    return folder / f"{name}.scales.npz"


def intact_weights(folder: Path, name: str, sha256: str) -> Path:
    """The file with a variant's weights; :class:`CatalogError` unless it is there, and has this SHA-256."""
    return _checked("weights", weights_file(folder, name), name, sha256)


def intact_scales(folder: Path, name: str, sha256: str) -> Path:
    """The file with a variant's scales; :class:`CatalogError` unless it is there, and has this SHA-256."""
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
