# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Detectors that come as files without a card, known by the names and shapes of their outputs.

A file says neither how its images are normalised nor what its outputs mean. Where both are beyond doubt, the user
need not write a card.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from cacheinf_ros.graph.card import ModelCard, SsdBoxes
from cacheinf_ros.graph.ir import Concat, Graph

_CARDS = Path(__file__).parent / "cards" / "known"
_KNOWN = ("fastestdet", "rfb")
_SAID = {"decoder", "channel_order", "scale", "mean", "std"}
_FASTESTDET_STRIDE = 16


def recognised(card: ModelCard, graph: Graph) -> ModelCard:
    """The card, completed where it says nothing of inputs and outputs and the graph is that of a known detector."""
    if card.model_fields_set & _SAID:
        return card
    if _is_fastestdet(graph):
        return _completed(card, "fastestdet")
    return _completed(card, "rfb") if _is_rfb(graph) else card


def possible_cards(card: ModelCard) -> tuple[ModelCard, ...]:
    """All that :func:`recognised` makes of a card, each of some graph."""
    if card.model_fields_set & _SAID:
        return (card,)
    return card, *(_completed(card, name) for name in _KNOWN)


def _completed(card: ModelCard, name: str) -> ModelCard:
    known = yaml.safe_load((_CARDS / f"{name}.yaml").read_text(encoding="utf-8"))
    return card.changed(**{**known, **card.model_dump(include=card.model_fields_set)})


def _is_fastestdet(graph: Graph) -> bool:
    """One output, concatenated from the score, the box and the classes of each 16th pixel."""
    if len(graph.outputs) != 1:
        return False
    output = graph.tensors[graph.outputs[0][1]]
    made_by = next((operator for operator in graph.operators if operator.output == output.name), None)
    if not isinstance(made_by, Concat) or output.size != _cells(graph):
        return False
    return [graph.tensors[name].channels for name in made_by.inputs][:2] == [1, 4] and len(made_by.inputs) == 3


def _cells(graph: Graph) -> tuple[int, int]:
    height, width = graph.tensors[graph.input].size
    return height // _FASTESTDET_STRIDE, width // _FASTESTDET_STRIDE


def _is_rfb(graph: Graph) -> bool:
    """Outputs boxes [1, n, 4] and scores [1, n, 2], with n the number of this detector's priors."""
    shapes = {name: graph.tensors[tensor].shape for name, tensor in graph.outputs}
    decoder = SsdBoxes()
    grids = decoder.grids(graph.tensors[graph.input].size)
    priors = sum(rows * columns * len(b) for (rows, columns), b in zip(grids, decoder.min_boxes, strict=True))
    return shapes == {"boxes": (1, priors, 4), "scores": (1, priors, 2)}
