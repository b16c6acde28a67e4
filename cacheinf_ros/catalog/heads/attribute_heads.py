# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Heads for several attributes of a picture, trained on the features of one trunk: MCDNN, section 5.2.2."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch

from cacheinf_ros.catalog.labelled_pictures import Labelled, Labels
from cacheinf_ros.catalog.linear import Linear, fit_linear
from cacheinf_ros.catalog.trunks import pre_forward
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import DenseGraph, Model
from cacheinf_ros.graph.decoder_configs import ClassVector
from cacheinf_ros.graph.trunk import with_head


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Head:
    """A linear layer that tells the classes of one attribute apart.

    Attributes:
        name: the attribute.
        labels: names of the attribute's classes.
        accuracy: share of right answers for samples that the head was not trained on.
        samples: number of samples that the head was trained on.
    """

    name: str
    labels: tuple[str, ...]
    layer: Linear
    accuracy: float
    samples: int


def train_heads(trunk: Model, samples: Iterable[Labelled], labels: Labels) -> tuple[Head, ...]:
    """Train a head for each attribute; the trunk is not changed.

    Args:
        trunk: a model of :func:`trunks.trunk_model`.
        samples: read once; they need not fit into memory.
        labels: the classes of each attribute that is wanted.

    Raises:
        CatalogError: an attribute has no samples to learn from, or none to judge by.
    """
    found = pre_forward([trunk], samples)
    (features,), held_out = found.outputs, found.held_out
    heads = []
    for name, classes in labels.items():
        known = np.array([each.get(name, -1) for each in found.classes])
        training, judging = (known >= 0) & ~held_out, (known >= 0) & held_out
        for where, use in ((training, "learn from"), (judging, "judge by")):
            if len(np.unique(known[where])) < 2:
                raise CatalogError(f"attribute {name!r}: pictures of two or more classes are needed to {use}; add some")
        layer = fit_linear(features[training], known[training], len(classes))
        answers = layer.probabilities(features[judging]).argmax(axis=1)
        accuracy = float((answers == known[judging]).mean())
        heads.append(Head(name=name, labels=classes, layer=layer, accuracy=accuracy, samples=int(training.sum())))
    return tuple(heads)


def head_model(trunk: Model, head: Head) -> Model:
    """Return the trunk with one head as a model."""
    weight, bias = (torch.from_numpy(np.array(a)) for a in (head.layer.weight, head.layer.bias))
    graph = with_head(trunk.graph, weight, bias)
    decoder = ClassVector(top_k=min(5, len(head.labels)))
    card = trunk.card.model_copy(update={"name": head.name, "labels": head.labels, "decoder": decoder})
    return replace(trunk, module=DenseGraph(graph), graph=graph, card=card)
