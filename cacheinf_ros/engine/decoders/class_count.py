# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Counts the classes that a network's outputs tell apart, to be compared with the labels of its card."""

from __future__ import annotations

from cacheinf_ros.engine.decoders.decode import only_output
from cacheinf_ros.engine.decoders.given_classes import are_whole
from cacheinf_ros.engine.decoders.grids import grids_classes
from cacheinf_ros.engine.decoders.named_outputs import Outputs, output_named
from cacheinf_ros.engine.decoders.nanodet import nanodet_classes
from cacheinf_ros.engine.decoders.yolo import yolo_classes
from cacheinf_ros.graph.decoder_configs import (
    Boxes,
    Centers,
    ClassVector,
    Decoder,
    DenseMap,
    FastestDet,
    Grids,
    NanoDet,
    SsdBoxes,
    Yolo,
)

_BOX_VALUES = 4


def class_count(outputs: Outputs, decoder: Decoder, input_size: tuple[int, int]) -> int | None:
    """Return the number of classes, without a background that is the last one; None where no output says it.

    Args:
        outputs: outputs that the decoder can read, by name.
        input_size: (height, width) of the model's input.
    """
    if isinstance(decoder, Boxes | SsdBoxes):
        count = int(output_named(outputs, decoder.scores).shape[-1])
        return count - (decoder.background == count - 1)
    if isinstance(decoder, Yolo):
        return yolo_classes(outputs, decoder, input_size)
    if isinstance(decoder, NanoDet):
        return nanodet_classes(outputs, decoder, input_size)
    if isinstance(decoder, Grids):
        return grids_classes(outputs, decoder, input_size)
    if not isinstance(decoder, ClassVector | DenseMap | Centers | FastestDet):
        return None
    output = only_output(outputs, decoder.kind)
    if are_whole(output):
        return None
    if isinstance(decoder, ClassVector):
        return int(output.size)
    channels = int(output.shape[1])
    if isinstance(decoder, Centers):
        return channels - _BOX_VALUES
    return channels - _BOX_VALUES - 1 if isinstance(decoder, FastestDet) else channels
