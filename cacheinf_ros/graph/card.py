# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Model cards: a YAML file that says how a model wants its images and what its outputs mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from cacheinf_ros.config import Config, parameter
from cacheinf_ros.errors import ConfigError, ModelError
from cacheinf_ros.graph.decoder_configs import Decoder, Size
from cacheinf_ros.yaml_text import read_yaml_text

TRUSTED = "trusted:"
"""The prefix of a ``.pt2`` file by which the user accepts that reading it may run code that is in it."""
Resize = Literal["stretch", "letterbox", "letterbox_corner"]
"""How a frame gets the size of the model's input: stretched, in the middle of a margin, or in its upper left corner."""


class ModelCard(Config):
    """How to load a model, prepare its input and read its outputs."""

    name: str = parameter("", "what results call the model")
    factory: str = parameter(
        "", "where the model comes from: torchvision:NAME, module:factory, file.py:factory, a file"
    )
    weights: Path | None = parameter(None, "safetensors or state dict; relative to the card")
    input_size: tuple[Size, Size] | None = parameter(None, "(height, width) of the model's input")
    resize: Resize = parameter(
        "stretch",
        "how a frame gets that size: stretch, or with its own proportions and a margin of grey 114: letterbox "
        "(in the middle, as ultralytics does), letterbox_corner (left above, as YOLOX does)",
    )
    channel_order: Literal["rgb", "bgr"] = parameter("rgb", "order of the channels of the model's input")
    scale: float = parameter(1 / 255, "factor applied to the 8-bit values first")
    mean: tuple[float, float, float] = parameter((0.485, 0.456, 0.406), "subtracted next, per channel of the input")
    std: tuple[float, float, float] = parameter((0.229, 0.224, 0.225), "divided by last, per channel of the input")
    decoder: Decoder | None = parameter(None, "what the outputs mean; guessed from their shape when absent")
    labels: tuple[str, ...] = parameter((), "names of the classes")
    sha256: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = parameter(
        "", "of the .pt2 file that factory names, as the card's writer states it: one that has changed is refused"
    )


def read_card(path: Path) -> ModelCard:
    """Read a card; its paths, which are relative to the card, are joined with the card's folder.

    Raises:
        ModelError: the file cannot be read or says something unusable.
    """
    try:
        content = read_yaml_text(path)
    except (OSError, ValueError) as error:
        raise ModelError(f"model card {path} cannot be read: {error}") from None
    if not isinstance(content, dict) or not content.get("factory"):
        raise ModelError(f"model card {path} must be a mapping with at least 'factory'")
    try:
        card = ModelCard.checked(**{"name": path.stem, **{str(key): value for key, value in content.items()}})
    except (ConfigError, ValueError) as error:  # ValueError: numbers of thousands of digits
        raise ModelError(f"model card {path}: {error}") from None
    weights = path.parent / card.weights if card.weights else None
    factory = card.factory
    trusted, named = (TRUSTED, factory.removeprefix(TRUSTED)) if factory.startswith(TRUSTED) else ("", factory)
    if (path.parent / named.partition(":")[0]).is_file():
        factory = f"{trusted}{path.parent / named}"
    return card.model_copy(update={"weights": weights, "factory": factory})
