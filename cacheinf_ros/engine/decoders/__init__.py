# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a model's outputs mean: classes, boxes with masks and key points, or a class map."""

from cacheinf_ros.engine.decoders.class_count import class_count
from cacheinf_ros.engine.decoders.decode import are_told_by_classes_and_boxes, decode, guessed_decoder
from cacheinf_ros.engine.decoders.decoded import Box, Decoded, KeyPoint, ScoredClass
from cacheinf_ros.engine.decoders.probabilities import softmax
from cacheinf_ros.engine.decoders.selection import WHOLE, Region, Selection

__all__ = [
    "WHOLE", "Box", "Decoded", "KeyPoint", "Region", "ScoredClass", "Selection", "are_told_by_classes_and_boxes",
    "class_count", "decode", "guessed_decoder", "softmax",
]  # fmt: skip
