# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Trunks of models (their leading operators without the last layer), and the features they compute from samples.

Features are computed once, so that a last layer can be trained anew in seconds: the pre-forwarding of MCDNN, section
5.2.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.catalog.labelled_pictures import Labelled
from cacheinf_ros.catalog.linear import Floats
from cacheinf_ros.engine import Preprocessor
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import DenseGraph, Model
from cacheinf_ros.graph.trunk import trunk_graph

MOST_FLOPS = 0.75
"""The largest share of a model's flops that a small trunk may have to be worth its time."""


def trunk_model(model: Model, tensor: str = "") -> Model:
    """Return a model's trunk as a model whose output is the feature vector; see :func:`trunk_graph`."""
    graph = trunk_graph(model.graph, tensor)
    card = model.card.model_copy(update={"name": f"{model.name}@{tensor}" if tensor else f"{model.name}@trunk"})
    card = card.model_copy(update={"decoder": None, "labels": ()})
    return replace(model, module=DenseGraph(graph), graph=graph, card=card)


def small_trunks(model: Model, most_flops: float = MOST_FLOPS) -> tuple[Model, ...]:
    """Return trunks that end after each convolution: small variants of the model that need no training.

    Args:
        most_flops: largest share of the model's flops that a small trunk has.
    """
    graph, most = model.graph, most_flops * model.graph.total_flops
    found = []
    for operator in graph.operators:
        if graph.flops(operator) and graph.tensors[operator.output].pixels > 1:
            trunk = trunk_model(model, operator.output)
            if trunk.graph.total_flops <= most:
                found.append(trunk)
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forwarded:
    """The outputs of several models for the same samples.

    Attributes:
        outputs: for each model, float32 [samples, channels].
        classes: for each sample, the class of each attribute.
        held_out: bool [samples], whether the sample is kept for evaluation.
    """

    outputs: tuple[Floats, ...]
    classes: tuple[Mapping[str, int], ...]
    held_out: NDArray[np.bool_]


@torch.inference_mode()
def pre_forward(models: Sequence[Model], samples: Iterable[Labelled]) -> Forwarded:
    """Run every model on each sample; pictures are read once, and need not fit into memory.

    Args:
        models: models with one output of one pixel each, such as classifiers and those of :func:`trunk_model`.
        samples: labelled pictures of any size.

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
