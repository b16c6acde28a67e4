# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Chooses the decoder that a model card asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.engine.decoders.boxes import decode_boxes
from cacheinf_ros.engine.decoders.centers import decode_centers
from cacheinf_ros.engine.decoders.decoded import Box, Decoded, ScoredClass
from cacheinf_ros.engine.decoders.fastestdet import decode_fastestdet
from cacheinf_ros.engine.decoders.ssd import decode_ssd
from cacheinf_ros.engine.decoders.suppress import Found
from cacheinf_ros.engine.following import move_boxes, move_class_map
from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph.card import (
    Attributes,
    Centers,
    ClassVector,
    Decoder,
    DenseMap,
    Detector,
    FastestDet,
    ModelCard,
    SsdBoxes,
)

Outputs = dict[str, NDArray[Any]]


def decode(outputs: Outputs, card: ModelCard, image_size: tuple[int, int], motion: Motion | None = None) -> Decoded:
    """Read the outputs of one frame.

    Args:
        outputs: of the engine.
        card: its ``decoder`` says how; without one, the shape of a single output decides.
        image_size: (height, width) of the frame, which boxes refer to.
        motion: where the frame shows what the outputs are for, in pixels of the model's input; None: at its place.

    Raises:
        ModelError: the outputs are not what the card promises.
    """
    decoder = card.decoder or _guessed(outputs)
    is_certain = card.decoder is not None
    try:
        if isinstance(decoder, ClassVector):
            return Decoded(classes=_classes(_only(outputs), decoder, card), is_certain=is_certain)
        if isinstance(decoder, Attributes):
            return Decoded(classes=_attributes(outputs, decoder))
        if isinstance(decoder, DenseMap):
            class_map = _only(outputs)[0].argmax(0).astype(np.uint8)
            moved_map = class_map if motion is None else move_class_map(class_map, motion, _size(card))
            return Decoded(class_map=moved_map, is_certain=is_certain)
        if decoder is not None:
            boxes, scores, ids = _found(outputs, decoder, _size(card))
            moved = boxes if motion is None else move_boxes(boxes, motion)
            return Decoded(boxes=_boxes(moved, scores, ids, card, image_size))
    except (KeyError, IndexError, ValueError) as error:
        shapes = {name: value.shape for name, value in outputs.items()}
        raise ModelError(
            f"outputs {shapes} do not fit the decoder {decoder!r} of model {card.name!r}: {error}"
        ) from None
    return Decoded(is_certain=False)


def _found(outputs: Outputs, decoder: Detector, input_size: tuple[int, int]) -> Found:
    if isinstance(decoder, Centers):
        return decode_centers(_only(outputs), stride=decoder.stride, score_threshold=decoder.score_threshold)
    if isinstance(decoder, FastestDet):
        return decode_fastestdet(_only(outputs), decoder, input_size)
    boxes, scores = outputs[decoder.boxes], outputs[decoder.scores]
    if isinstance(decoder, SsdBoxes):
        return decode_ssd(boxes, scores, decoder, input_size)
    return decode_boxes(boxes, scores, decoder, input_size)


def _guessed(outputs: Outputs) -> Decoder | None:
    if len(outputs) != 1:
        return None
    shape = _only(outputs).shape
    if len(shape) == 2 and shape[0] == 1 and shape[1] > 1:
        return ClassVector()
    return DenseMap() if len(shape) == 4 and 1 < shape[1] <= 256 and shape[2] * shape[3] > 1 else None


def _only(outputs: Outputs) -> NDArray[Any]:
    (value,) = outputs.values()
    return value


def _size(card: ModelCard) -> tuple[int, int]:
    assert card.input_size is not None
    return card.input_size


def _classes(vector: NDArray[Any], decoder: ClassVector, card: ModelCard) -> tuple[ScoredClass, ...]:
    scores = _probabilities(vector) if decoder.softmax else vector.reshape(-1).astype(np.float64)
    best = np.argsort(-scores, kind="stable")[: decoder.top_k]
    return tuple(ScoredClass(id=int(i), name=_label(card.labels, int(i)), score=float(scores[i])) for i in best)


def _attributes(outputs: Outputs, decoder: Attributes) -> tuple[ScoredClass, ...]:
    found = []
    for attribute in decoder.attributes:
        scores = _probabilities(outputs[attribute.output])
        best = int(scores.argmax())
        name = f"{attribute.name}: {_label(attribute.labels, best)}"
        found.append(ScoredClass(id=best, name=name, score=float(scores[best])))
    return tuple(found)


def _probabilities(logits: NDArray[Any]) -> NDArray[np.float64]:
    values = logits.reshape(-1).astype(np.float64)
    exponentials: NDArray[np.float64] = np.exp(values - values.max())
    return exponentials / exponentials.sum()


def _boxes(
    boxes: NDArray[np.float32],
    scores: NDArray[np.float32],
    ids: NDArray[np.int64],
    card: ModelCard,
    image_size: tuple[int, int],
) -> tuple[Box, ...]:
    height, width = _size(card)
    scale = np.array([image_size[1] / width, image_size[0] / height] * 2)
    return tuple(
        Box(x=x, y=y, width=w, height=h, class_id=int(i), name=_label(card.labels, int(i)), score=float(s))
        for (x, y, w, h), s, i in zip((boxes * scale).tolist(), scores, ids, strict=True)
    )


def _label(labels: tuple[str, ...], index: int) -> str:
    return labels[index] if index < len(labels) else str(index)
