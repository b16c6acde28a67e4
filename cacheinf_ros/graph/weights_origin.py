# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Where a model's weights come from: answers of random ones mean nothing, though they take as long."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

from cacheinf_ros.graph.card import ModelCard

_HOLD_WEIGHTS = (".pt2", ".onnx")


class WeightsOrigin(Enum):
    """Where a model's weights come from."""

    FILE = "file"
    """A file that the user named: a state dict, safetensors, or a model with its weights."""
    BUILT_IN = "built-in"
    """The package, which ships them trained."""
    RANDOM = "random"
    """A random number generator: nobody trained them."""
    UNKNOWN = "unknown"
    """Whoever made the network in memory, who may have trained it or not."""


def origin_of_weights(card: ModelCard) -> WeightsOrigin:
    """Tell from a user's card where the weights come from that :func:`load_model` loads for it."""
    if card.weights or Path(card.factory).suffix.lower() in _HOLD_WEIGHTS:
        return WeightsOrigin.FILE
    return WeightsOrigin.RANDOM if card.factory.startswith("torchvision:") else WeightsOrigin.UNKNOWN


def has_all_weights(graph: Any) -> bool:
    """Tell whether an ``onnx.GraphProto`` holds all of its weights, and none of them lies in another file."""
    import onnx  # here: it takes a while, and other models do without

    return not any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in graph.initializer)
