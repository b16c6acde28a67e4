# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Training sets: stored features of labelled samples, from which specialists are made in seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from cacheinf_ros.catalog.labelled_pictures import Labelled
from cacheinf_ros.catalog.linear import Classes, Floats
from cacheinf_ros.catalog.trunks import pre_forward
from cacheinf_ros.disk_cache import replacing
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import Model, graph_hash
from cacheinf_ros.graph.trunk import last_layer

_FORMAT = "cacheinf features 1"
_ARRAYS = {"features": (np.float32, 2), "labels": (np.int64, 1), "generic": (np.int64, 1), "held_out": (np.bool_, 1)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingSet:
    """The features that a trunk computes from labelled samples, and the generic model's answers to them.

    Attributes:
        trunk: :func:`graph_hash` of the trunk's graph.
        classes: number of the generic model's classes.
        features: float32 [samples, channels].
        labels: int64 [samples], the true classes.
        generic: int64 [samples], the classes that the generic model answers.
        held_out: bool [samples], whether the sample is kept for evaluation and never trained on.
    """

    trunk: str
    classes: int
    features: Floats
    labels: Classes
    generic: Classes
    held_out: NDArray[np.bool_]


def training_sets(
    generic: Model, trunks: Sequence[Model], samples: Iterable[Labelled], attribute: str
) -> list[TrainingSet]:
    """Run samples through the generic model and through each trunk, and return a training set per trunk.

    Args:
        generic: a classifier.
        trunks: trunks from :func:`trunk_model`, or whole models, of the same model or of its variants.
        samples: labelled samples; those without the attribute are skipped.
        attribute: the attribute that the generic model classifies.

    Raises:
        CatalogError: no sample has the attribute, or it has more classes than the generic model.
        ModelError: the generic model is no classifier.
    """
    classes = generic.graph.tensors[last_layer(generic.graph).output].channels
    found = pre_forward([generic, *trunks], (sample for sample in samples if attribute in sample.classes))
    labels = np.array([known[attribute] for known in found.classes])
    if int(labels.max()) >= classes:
        raise CatalogError(f"attribute {attribute!r} has class {labels.max()}; {generic.name} knows {classes} classes")
    logits, *features = found.outputs
    return [
        TrainingSet(
            trunk=graph_hash(trunk.graph), classes=classes, features=values, labels=labels,
            generic=logits.argmax(axis=1), held_out=found.held_out,
        )
        for trunk, values in zip(trunks, features, strict=True)
    ]  # fmt: skip


def save_training_set(samples: TrainingSet, path: Path) -> None:
    """Write a training set as safetensors."""
    arrays = {name: np.ascontiguousarray(getattr(samples, name)) for name in _ARRAYS}
    with replacing(path) as unfinished:
        save_file(arrays, unfinished, {"format": _FORMAT, "trunk": samples.trunk, "classes": str(samples.classes)})


def load_training_set(path: Path, trunk: Model) -> TrainingSet:
    """Read a training set that was made with this trunk.

    Raises:
        CatalogError: the file cannot be read, holds something else, or belongs to another trunk.
    """
    try:
        with safe_open(path, "numpy") as file:
            said = file.metadata() or {}
            if said.get("format") != _FORMAT:
                raise CatalogError(f"{path} holds no training set ({_FORMAT}); make it anew")
            arrays = {name: file.get_tensor(name) for name in _ARRAYS}
            classes = int(said.get("classes", "0"))
    except (OSError, SafetensorError, ValueError) as error:
        raise CatalogError(f"the training set {path} cannot be read: {error}; make it anew") from None
    if said.get("trunk") != graph_hash(trunk.graph):
        raise CatalogError(f"the training set {path} was made with other weights than {trunk.name}; make it anew")
    _check(arrays, classes, trunk.graph.tensors[trunk.graph.outputs[0][1]].channels, path)
    return TrainingSet(trunk=said["trunk"], classes=classes, **arrays)


def _check(arrays: dict[str, NDArray[np.generic]], classes: int, channels: int, path: Path) -> None:
    shapes = {name: (array.dtype.type, array.ndim) for name, array in arrays.items()}
    if shapes != _ARRAYS or len({len(array) for array in arrays.values()}) != 1:
        raise CatalogError(f"the training set {path} has arrays of wrong types or lengths; make it anew")
    features = arrays["features"]
    if features.shape[1] != channels or not np.isfinite(features).all():
        raise CatalogError(f"the training set {path} has no {channels} finite features of each sample; make it anew")
    named = np.concatenate([arrays["labels"], arrays["generic"]])
    if len(named) and not 0 <= int(named.min()) <= int(named.max()) < classes:
        raise CatalogError(f"the training set {path} names classes beyond its {classes}; make it anew")
