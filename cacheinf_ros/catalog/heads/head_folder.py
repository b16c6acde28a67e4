# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Heads on disk: heads.yaml names the model whose trunk they are for; each head has a safetensors file beside it.

The folder also holds the exported model with all heads, and its card, which nodes and commands are given.
"""

from __future__ import annotations

import hashlib
import logging
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import Field, FiniteFloat
from safetensors import SafetensorError
from safetensors.numpy import load, save_file

from cacheinf_ros.catalog.heads.attribute_heads import Head, head_model
from cacheinf_ros.catalog.heads.shared_models import SharedModel, merge_models
from cacheinf_ros.catalog.linear import Linear
from cacheinf_ros.catalog.stored_files import read_yaml, readable_digest, write_yaml
from cacheinf_ros.catalog.trunks import trunk_model
from cacheinf_ros.config import Config
from cacheinf_ros.disk_cache import OptionalSha256, replacing
from cacheinf_ros.errors import CatalogError, ConfigError
from cacheinf_ros.graph import Model, graph_hash, load_model
from cacheinf_ros.graph.write import write_model

_LARGEST_HEADER = 100_000  # bytes, of a safetensors file
_FILE = "heads.yaml"
CARD = "shared.yaml"
"""The card of the model with all heads."""
_VERSION = 1
_REMEDY = "write it with `cacheinf catalog share`"
_NAME = r"^[A-Za-z0-9_-]{1,64}$"
_log = logging.getLogger(__name__)


class HeadEntry(Config):
    """A head as heads.yaml states it.

    Attributes:
        sha256: SHA-256 of the weights' file; "" in folders written before it was recorded.
    """

    name: str = Field(pattern=_NAME)
    labels: tuple[str, ...] = Field(min_length=2)
    accuracy: FiniteFloat = Field(ge=0, le=1)
    samples: int = Field(ge=0)
    sha256: OptionalSha256 = ""


class HeadsFile(Config):
    """The content of heads.yaml.

    Attributes:
        model, weights, input_size: as :func:`load_model` takes them.
        cut_at: the tensor where the trunk ends; "": just before the model's last layer.
        trunk: :func:`graph_hash` of the trunk, so that heads are not combined with other weights.
        data: what the heads were trained on, for the reader.
    """

    version: int = Field(ge=1, le=_VERSION)
    model: str
    weights: str = ""
    input_size: tuple[int, int]
    cut_at: str = ""
    trunk: str
    data: str = ""
    heads: tuple[HeadEntry, ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeadFolder:
    """Heads that were read from their folder.

    Attributes:
        trunk: the model that gives the features.
        heads: the heads, each with its linear layer.
    """

    trunk: Model
    heads: tuple[Head, ...]

    def models(self) -> tuple[Model, ...]:
        """Return a model for each head: the trunk with that head."""
        return tuple(head_model(self.trunk, head) for head in self.heads)

    def shared(self) -> SharedModel:
        """Return one model with all heads on one trunk."""
        return merge_models(self.models())


def write_heads(
    folder: Path,
    heads: tuple[Head, ...],
    trunk: Model,
    *,
    model: str,
    weights: str = "",
    cut_at: str = "",
    data: str = "",
) -> None:
    """Write heads to a folder, which is made where needed.

    Args:
        model, weights, cut_at: what the trunk was made from.

    Raises:
        CatalogError: the folder cannot be written, or a head's name cannot be a file name.
    """
    path = folder / _FILE
    try:
        content = HeadsFile.checked(
            version=_VERSION,
            model=model,
            weights=weights,
            input_size=trunk.input_size,
            cut_at=cut_at,
            trunk=graph_hash(trunk.graph),
            data=data,
            heads=[
                {"name": h.name, "labels": h.labels, "accuracy": round(h.accuracy, 4), "samples": h.samples}
                for h in heads
            ],
        )
    except ConfigError as error:
        raise CatalogError(f"{path}: {error}; {_REMEDY}") from None
    _check_names(content, path)
    shared = merge_models([head_model(trunk, head) for head in heads], name=folder.name).model
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pairs = zip(content.heads, heads, strict=True)
        summed = tuple(entry.changed(sha256=_write_weights(folder, head)) for entry, head in pairs)
        write_model(shared, folder / CARD)
        write_yaml(path, content.model_copy(update={"heads": summed}))
    except (OSError, SafetensorError) as error:
        raise CatalogError(f"heads cannot be written to {folder}: {error}") from None


def read_heads(folder: Path) -> HeadFolder:
    """Read heads and load the model whose trunk they are for; logs a warning where weights have no SHA-256.

    Raises:
        CatalogError: a file is missing, broken, changed, or for another trunk.
        ModelError: the model cannot be loaded.
    """
    path = folder / _FILE
    said = read_yaml(path, HeadsFile, _REMEDY)
    _check_names(said, path)
    if not all(entry.sha256 for entry in said.heads):
        _log.warning("%s states no SHA-256 of weights: damage to them would go unnoticed; %s anew", path, _REMEDY)
    whole = load_model(said.model, weights=Path(said.weights) if said.weights else None, input_size=said.input_size)
    trunk = trunk_model(whole, said.cut_at)
    if graph_hash(trunk.graph) != said.trunk:
        raise CatalogError(f"the heads in {folder} were trained on other weights of {said.model}; train them anew")
    return HeadFolder(trunk=trunk, heads=tuple(_head(folder, entry, trunk) for entry in said.heads))


def _check_names(said: HeadsFile, path: Path) -> None:
    names = [head.name for head in said.heads]
    if len(set(names)) != len(names):
        raise CatalogError(f"{path}: two heads have one name: {', '.join(names)}")


def _head(folder: Path, entry: HeadEntry, trunk: Model) -> Head:
    path = _weights_of(folder, entry.name)
    channels = trunk.graph.tensors[trunk.graph.outputs[0][1]].channels
    try:
        content = _read_weights(path, most_bytes=len(entry.labels) * (channels + 1) * 4 + _LARGEST_HEADER)
        if entry.sha256 and hashlib.sha256(content).hexdigest() != entry.sha256:
            raise CatalogError(f"the head {path} has changed since it was written; train it anew")
        arrays = load(content)
        layer = Linear(weight=arrays["weight"], bias=arrays["bias"])
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise CatalogError(f"the head {path} cannot be read: {error}; train it anew") from None
    expected, found = (len(entry.labels), channels), layer.weight.shape
    if found != expected or layer.bias.shape != expected[:1] or not _is_sound(layer):
        raise CatalogError(f"the head {path} must hold finite float32 weights {expected}, not {found}; train it anew")
    return Head(name=entry.name, labels=entry.labels, layer=layer, accuracy=entry.accuracy, samples=entry.samples)


def _read_weights(path: Path, most_bytes: int) -> bytes:
    """Read a file of at most so many bytes; raises ValueError where it is larger."""
    with path.open("rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ValueError(f"it has more than {most_bytes} bytes")
    return content


def _is_sound(layer: Linear) -> bool:
    return all(a.dtype == np.float32 and bool(np.isfinite(a).all()) for a in (layer.weight, layer.bias))


def _write_weights(folder: Path, head: Head) -> str:
    """Write the weights of a head, and return the file's SHA-256."""
    path = _weights_of(folder, head.name)
    with replacing(path) as unfinished:
        save_file({"weight": head.layer.weight, "bias": head.layer.bias}, unfinished)
    return readable_digest(path)


def check_name(name: str) -> None:
    """Raise :class:`CatalogError` where heads cannot be called so, as their files are."""
    if not re.fullmatch(_NAME, name):
        raise CatalogError(
            f"attribute {name!r} cannot be the name of a head: rename its folder, with at most 64 letters, digits, - "
            "and _"
        )


def _weights_of(folder: Path, name: str) -> Path:
    assert re.fullmatch(_NAME, name)  # the name cannot lead out of the folder
    return folder / f"{name}.safetensors"
