# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Chooses the decoder that a model card asks for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.engine.decoders.best_class_map import MOST_CLASSES, best_class_map
from cacheinf_ros.engine.decoders.boxes import decode_boxes
from cacheinf_ros.engine.decoders.centers import decode_centers
from cacheinf_ros.engine.decoders.decoded import Decoded, ScoredClass
from cacheinf_ros.engine.decoders.fastestdet import decode_fastestdet
from cacheinf_ros.engine.decoders.given_classes import are_whole, as_classes, shape_of_classes
from cacheinf_ros.engine.decoders.grids import decode_grids
from cacheinf_ros.engine.decoders.instances import Instances, label_of
from cacheinf_ros.engine.decoders.named_outputs import Outputs, listed, output_named
from cacheinf_ros.engine.decoders.nanodet import decode_nanodet
from cacheinf_ros.engine.decoders.probabilities import softmax
from cacheinf_ros.engine.decoders.selection import Selection
from cacheinf_ros.engine.decoders.ssd import decode_ssd
from cacheinf_ros.engine.decoders.yolo import decode_yolo
from cacheinf_ros.engine.following import move_class_map
from cacheinf_ros.engine.frame_placement import Placement
from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph import ModelCard
from cacheinf_ros.graph.decoder_configs import (
    Attributes,
    Centers,
    ClassVector,
    Decoder,
    DenseMap,
    Detector,
    FastestDet,
    Grids,
    NanoDet,
    Raw,
    SsdBoxes,
    Yolo,
)

_ALL = Selection()


def decode(
    outputs: Outputs,
    card: ModelCard,
    image_size: tuple[int, int],
    motion: Motion | None = None,
    selection: Selection = _ALL,
) -> Decoded:
    """Read the outputs of one frame.

    Args:
        outputs: the outputs of the engine, by name.
        card: its ``decoder`` says how to read them; without one, the shape of a single output decides.
        image_size: (height, width) of the frame, which boxes refer to: of several pictures in it, to the left one.
        motion: from the image that the outputs are for to the frame, in pixels of the model's input; None: none.
        selection: which classes and boxes are wanted; attributes and class maps are given whole.

    Raises:
        ModelError: the outputs are not what the card promises.
    """
    decoder = card.decoder or guessed_decoder(outputs, card.labels)
    place = _place(card, image_size)
    is_certain = _is_certain(card)
    try:
        if isinstance(decoder, ClassVector):
            return Decoded(
                classes=_classes(only_output(outputs, decoder.kind), decoder, card, selection), is_certain=is_certain
            )
        if isinstance(decoder, Attributes):
            return Decoded(classes=_attributes(outputs, decoder))
        if isinstance(decoder, DenseMap):
            class_map = _class_map(only_output(outputs, decoder.kind), place, motion or Motion.none())
            return Decoded(class_map=class_map, is_certain=is_certain)
        if decoder is not None and not isinstance(decoder, Raw):
            found = _found(outputs, _with_threshold(decoder, selection), place.input_size)
            boxes = found.in_frame(place, motion or Motion.none(), card.labels)
            decoded = Decoded(boxes=boxes)
            return decoded if selection == _ALL else selection.applied(decoded, place.image_size)
    except (IndexError, ValueError) as error:
        if card.decoder is None:  # wrongly guessed
            return Decoded(is_certain=False)
        named = listed(outputs)
        given = "" if named in str(error) else f"; the outputs are: {named}"
        raise ModelError(
            f"the outputs of model {card.name!r} do not fit the decoder {card.decoder.kind}: {error}{given}"
        ) from None
    return Decoded(is_certain=False)


def are_told_by_classes_and_boxes(card: ModelCard) -> bool:
    """Tell whether the classes and boxes of an answer say all that a model's outputs do, whatever these are.

    Class maps are beside them, and where the decoder is a guess, outputs are sent as well.
    """
    return _is_certain(card) and not isinstance(card.decoder, Raw | DenseMap)


def _is_certain(card: ModelCard) -> bool:
    """Tell whether the card says how outputs are read, and not only that it may be so."""
    decoder = card.decoder
    return decoder is not None and not (isinstance(decoder, ClassVector) and decoder.is_guess)


def only_output(outputs: Outputs, kind: str) -> NDArray[Any]:
    """Return the only output; raises :class:`ValueError` if there are others, which decoder ``kind`` cannot read."""
    if len(outputs) != 1:
        raise ValueError(f"decoder {kind} needs one output, there are {len(outputs)}: {listed(outputs)}")
    (value,) = outputs.values()
    return value


def _found(outputs: Outputs, decoder: Detector, input_size: tuple[int, int]) -> Instances:
    if isinstance(decoder, Yolo):
        return decode_yolo(outputs, decoder, input_size)
    if isinstance(decoder, Grids):
        return decode_grids(outputs, decoder, input_size)
    if isinstance(decoder, Centers):
        centers = decode_centers(
            only_output(outputs, decoder.kind), stride=decoder.stride, score_threshold=decoder.score_threshold
        )
        return Instances.of(centers)
    if isinstance(decoder, FastestDet):
        return Instances.of(decode_fastestdet(only_output(outputs, decoder.kind), decoder, input_size))
    if isinstance(decoder, NanoDet):
        return Instances.of(decode_nanodet(outputs, decoder, input_size))
    boxes, scores = output_named(outputs, decoder.boxes), output_named(outputs, decoder.scores)
    if isinstance(decoder, SsdBoxes):
        return Instances.of(decode_ssd(boxes, scores, decoder, input_size))
    return Instances.of(decode_boxes(boxes, scores, decoder, input_size))


def _with_threshold(decoder: Detector, selection: Selection) -> Detector:
    if selection.score_threshold is None:
        return decoder
    return decoder.model_copy(update={"score_threshold": selection.score_threshold})


def guessed_decoder(outputs: Outputs, labels: Sequence[str] = ()) -> Decoder | None:
    """Guess from shape and values how a single output is read; None where it cannot be, or there are several.

    Whole numbers are those of a class map. A list of them holds classes rather than their scores, unless it has as many
    as there are ``labels``.
    """
    if len(outputs) != 1:
        return None
    (value,) = outputs.values()
    shape = value.shape
    if len(shape) == 2 and shape[0] == 1 and shape[1] > 1:
        return ClassVector() if not are_whole(value) or len(labels) == value.size else None
    if are_whole(value) and len(shape_of_classes(shape)) == 3 and shape[0] == 1:
        return DenseMap()
    return DenseMap() if len(shape) == 4 and 1 < shape[1] <= MOST_CLASSES and shape[2] * shape[3] > 1 else None


def _place(card: ModelCard, image_size: tuple[int, int]) -> Placement:
    """Return where the left picture of a frame lies in the input, or the only one."""
    assert card.input_size is not None
    return Placement.of(image_size, card.input_size, card.resize, card.pictures)


def _class_map(output: NDArray[Any], place: Placement, motion: Motion) -> NDArray[np.uint8]:
    output = as_classes(output.view(np.uint8) if output.dtype == np.bool_ else output)
    if output.ndim not in (3, 4) or output.shape[0] != 1:
        raise ValueError(f"a map is [1, classes, h, w], or [1, h, w] of integers, not {list(output.shape)}")
    has_scores = output.ndim == 4
    if output.shape[1] == 1 if has_scores else not _are_whole_numbers(output):
        raise ValueError(
            "a map of classes has a channel for each class, this one a single score: let the network end with a "
            "threshold (whole numbers), or choose the decoder raw"
        )
    if output.shape[1] > MOST_CLASSES if has_scores else not _are_bytes(output):
        raise ValueError(
            f"a map has at most {MOST_CLASSES} classes, numbered from 0, as they are sent as bytes: choose the decoder "
            "raw"
        )
    classes = best_class_map(output[0]) if has_scores else output[0].astype(np.uint8)
    moved = move_class_map(classes, motion, place.input_size)
    return moved[place.map_content((moved.shape[0], moved.shape[1]))]


def _are_whole_numbers(values: NDArray[Any]) -> bool:
    return are_whole(values) or bool((values == np.rint(values)).all())


def _are_bytes(whole: NDArray[Any]) -> bool:
    return whole.dtype == np.uint8 or not whole.size or (int(whole.min()) >= 0 and int(whole.max()) < MOST_CLASSES)


def _classes(
    vector: NDArray[Any], decoder: ClassVector, card: ModelCard, selection: Selection
) -> tuple[ScoredClass, ...]:
    scores = _of_classes(vector)
    scores = softmax(scores) if decoder.softmax else scores
    ordered = (int(i) for i in np.argsort(-scores, kind="stable"))
    best = islice((i for i in ordered if selection.shows(i, float(scores[i]))), decoder.top_k)
    return tuple([ScoredClass(id=i, name=label_of(card.labels, i), score=float(scores[i])) for i in best])


def _attributes(outputs: Outputs, decoder: Attributes) -> tuple[ScoredClass, ...]:
    found = []
    for attribute in decoder.attributes:
        scores = softmax(_of_classes(output_named(outputs, attribute.output)))
        best = int(scores.argmax())
        name = f"{attribute.name}: {label_of(attribute.labels, best)}"
        found.append(ScoredClass(id=best, name=name, score=float(scores[best])))
    return tuple(found)


def _of_classes(vector: NDArray[Any]) -> NDArray[np.float64]:
    """Return the values of [1, classes], or of another shape with one value per class, as [classes]."""
    if sum(side != 1 for side in vector.shape) > 1:
        raise ValueError(f"one value per class is [1, classes], not {list(vector.shape)}")
    return vector.reshape(-1).astype(np.float64)
