# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Features of stored samples, computed once, so that a last layer can be trained anew in seconds: the pre-forwarding of
MCDNN, section 5.2.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from cacheinf_ros.catalog.labelled_pictures import Labelled
from cacheinf_ros.catalog.linear import Classes, Floats
from cacheinf_ros.engine import Preprocessor
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import Model
from cacheinf_ros.graph.identity import graph_hash
from cacheinf_ros.graph.interpret import DenseGraph
from cacheinf_ros.graph.trunk import last_layer, trunk_graph

_FORMAT = "cacheinf features 1"
_ARRAYS = {"features": (np.float32, 2), "labels": (np.int64, 1), "generic": (np.int64, 1), "held_out": (np.bool_, 1)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingSet:
    """Labelled samples as a trunk sees them, and what the generic model says of them.

    Attributes:
        trunk: :func:`graph_hash` of the trunk's graph.
        classes: of the generic model.
        features: float32 [samples, channels].
        labels: int64 [samples], the true classes.
        generic: int64 [samples], the classes that the generic model answers.
        held_out: bool [samples], those that nothing is trained on.
    """

    trunk: str
    classes: int
    features: Floats
    labels: Classes
    generic: Classes
    held_out: NDArray[np.bool_]


def trunk_model(model: Model, tensor: str = "") -> Model:
    """A model's trunk as a model: its output is the vector of features; see :func:`trunk_graph`."""
    graph = trunk_graph(model.graph, tensor)
    card = model.card.model_copy(update={"name": f"{model.name}@{tensor}" if tensor else f"{model.name}@trunk"})
    card = card.model_copy(update={"decoder": None, "labels": ()})
    return replace(model, module=DenseGraph(graph), graph=graph, card=card)


def small_trunks(model: Model, most_flops: float = 0.75) -> tuple[Model, ...]:
    """Trunks that end earlier, after each convolution: small variants of the model whose weights need no training.

    Args:
        most_flops: a trunk with more than this share of the model's operations is not small.
    """
    graph, whole = model.graph, sum(model.graph.flops(o) for o in model.graph.operators)
    found = []
    for operator in graph.operators:
        if graph.flops(operator) and graph.tensors[operator.output].pixels > 1:
            trunk = trunk_model(model, operator.output)
            if sum(trunk.graph.flops(o) for o in trunk.graph.operators) <= most_flops * whole:
                found.append(trunk)
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forwarded:
    """What models say of samples.

    Attributes:
        outputs: by model, float32 [samples, channels].
        classes: of each sample, by attribute.
        held_out: bool [samples].
    """

    outputs: tuple[Floats, ...]
    classes: tuple[Mapping[str, int], ...]
    held_out: NDArray[np.bool_]


@torch.inference_mode()
def pre_forward(models: Sequence[Model], samples: Iterable[Labelled]) -> Forwarded:
    """Run every model on each sample; pictures are seen once, and need not fit into memory.

    Args:
        models: with one output of one pixel each, such as classifiers and :func:`trunk_model`.
        samples: with pictures of any size.

    Raises:
        CatalogError: there is no sample.
    """
    runs = [(Preprocessor(model.card), DenseGraph(model.graph)) for model in models]
    rows: list[list[Floats]] = [[] for _ in models]
    seen: list[tuple[Mapping[str, int], bool]] = []
    for sample in samples:
        seen.append((sample.classes, sample.held_out))
        for (preprocessor, graph), found in zip(runs, rows, strict=True):
            (output,) = graph(torch.from_numpy(preprocessor.input(sample.image))).values()
            found.append(output.flatten().numpy().astype(np.float32))
    if not seen:
        raise CatalogError("there are no pictures to learn from: give a folder of them, or built-in scenes")
    classes, held_out = zip(*seen, strict=True)
    return Forwarded(outputs=tuple(np.stack(found) for found in rows), classes=classes, held_out=np.array(held_out))


def training_sets(
    generic: Model, trunks: Sequence[Model], samples: Iterable[Labelled], attribute: str
) -> list[TrainingSet]:
    """Pre-forward samples through the generic model and through each trunk.

    Args:
        generic: a classifier.
        trunks: of :func:`trunk_model`, of the same model or of its variants.
        samples: those that the attribute is known of.
        attribute: which the generic model tells.

    Raises:
        CatalogError: the attribute is known of no sample, or has more classes than the generic model.
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
    save_file(arrays, path, {"format": _FORMAT, "trunk": samples.trunk, "classes": str(samples.classes)})


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
    _check(arrays, classes, path)
    return TrainingSet(trunk=said["trunk"], classes=classes, **arrays)


def _check(arrays: dict[str, NDArray[np.generic]], classes: int, path: Path) -> None:
    shapes = {name: (array.dtype.type, array.ndim) for name, array in arrays.items()}
    if shapes != _ARRAYS or len({len(array) for array in arrays.values()}) != 1:
        raise CatalogError(f"the training set {path} has arrays of wrong types or lengths; make it anew")
    named = np.concatenate([arrays["labels"], arrays["generic"]])
    if len(named) and not 0 <= int(named.min()) <= int(named.max()) < classes:
        raise CatalogError(f"the training set {path} names classes beyond its {classes}; make it anew")
