# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Networks, mostly detectors, that come as files without a card, known by the names and shapes of their outputs.

A file says neither how its images are normalised nor what its outputs mean. Where both are beyond doubt, the user
need not write a card.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from cacheinf_ros.graph.card import VALUE_FIELDS, ModelCard, is_grey
from cacheinf_ros.graph.decoder_configs import ClassVector, SsdBoxes
from cacheinf_ros.graph.export_notes import export_notes
from cacheinf_ros.graph.ir import Concat, Graph
from cacheinf_ros.graph.known_heads import (
    detr_head,
    gives_probabilities,
    nanodet_head,
    picodet_head,
    rtdetr_head,
    scrfd_head,
    yolo_classes,
    yolo_head,
    yolox_head,
    yunet_head,
)

_CARDS = Path(__file__).parent / "cards" / "known"
_SAID = {"decoder", "resize", *VALUE_FIELDS}
_FASTESTDET_STRIDE = 16


def recognised(card: ModelCard, graph: Graph) -> ModelCard:
    """Complete the card where it says nothing of inputs and outputs and the graph is that of a known detector.

    A card for grey pictures must say which values they have, and is completed where it says no more than that. A card
    that does not say how outputs are read gets no second softmax for a vector of classes.
    """
    if not _is_taken_as_it_is(card):
        for name, head_of in _KNOWN.items():
            decoder = head_of(card, graph)
            if decoder is not None:
                return _completed(card, name, decoder)
    if card.decoder is None and gives_probabilities(graph):
        return card.model_copy(update={"decoder": ClassVector(softmax=False, is_guess=True)})
    return card


def possible_cards(card: ModelCard) -> tuple[ModelCard, ...]:
    """Return all cards that :func:`recognised` may make of this one, but for what depends on a graph's classes."""
    if _is_taken_as_it_is(card):
        return (card,)
    return card, *(_completed(card, name, {}) for name in _KNOWN)


def _is_taken_as_it_is(card: ModelCard) -> bool:
    said = card.model_fields_set & _SAID
    if card.pictures > 1:  # those known take one
        return True
    return bool(said - VALUE_FIELDS if is_grey(card) else said)


def _completed(card: ModelCard, name: str, decoder: dict[str, Any]) -> ModelCard:
    """Return the card with what is known of this detector, what its graph says, and what the user said."""
    labels = decoder.pop("labels", None)
    known = _read(_CARDS / f"{name}.yaml")
    labels = labels or known.get("labels", ())
    known["labels"] = _read(_CARDS / "labels" / f"{labels}.yaml") if isinstance(labels, str) else labels
    known["decoder"] = {**known["decoder"], **decoder}
    return card.changed(**{**known, **card.model_dump(include=card.model_fields_set)})


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _fastestdet(_: ModelCard, graph: Graph) -> dict[str, Any] | None:
    """Recognise FastestDet: one output, concatenated from the score, the box and the classes of each 16th pixel."""
    if len(graph.outputs) != 1:
        return None
    output = graph.tensors[graph.outputs[0][1]]
    made_by = next((operator for operator in graph.operators if operator.output == output.name), None)
    if not isinstance(made_by, Concat) or output.size != _cells(graph):
        return None
    is_known = [graph.tensors[name].channels for name in made_by.inputs][:2] == [1, 4] and len(made_by.inputs) == 3
    return {} if is_known else None


def _cells(graph: Graph) -> tuple[int, int]:
    height, width = graph.tensors[graph.input].size
    return height // _FASTESTDET_STRIDE, width // _FASTESTDET_STRIDE


def _rfb(_: ModelCard, graph: Graph) -> dict[str, Any] | None:
    """Recognise RFB: outputs boxes [1, n, 4] and scores [1, n, 2], with n the number of this detector's priors."""
    shapes = {name: graph.tensors[tensor].shape for name, tensor in graph.outputs}
    decoder = SsdBoxes()
    grids = decoder.grids(graph.tensors[graph.input].size)
    priors = sum(rows * columns * len(b) for (rows, columns), b in zip(grids, decoder.min_boxes, strict=True))
    return {} if shapes == {"boxes": (1, priors, 4), "scores": (1, priors, 2)} else None


_KNOWN: dict[str, Callable[[ModelCard, Graph], dict[str, Any] | None]] = {
    "fastestdet": _fastestdet,
    "rfb": _rfb,
    "yolo": lambda card, graph: yolo_head(graph, export_notes(Path(card.factory))),
    "yolo_classes": lambda card, graph: yolo_classes(graph, export_notes(Path(card.factory))),
    "yolox": lambda _, graph: yolox_head(graph),
    "nanodet": lambda _, graph: nanodet_head(graph),
    "picodet": lambda _, graph: picodet_head(graph),
    "detr": lambda _, graph: detr_head(graph, queries=100, classes=92),
    "rtdetr": lambda _, graph: rtdetr_head(graph),
    "yunet": lambda _, graph: yunet_head(graph),
    "scrfd": lambda _, graph: scrfd_head(graph),
}
"""The function that recognises each detector: it returns what the graph says of the decoder, or None."""
