"""Model cards: a YAML file that says how a model wants its images and what its outputs mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field

from cacheinf_ros.config import Config, parameter
from cacheinf_ros.errors import ConfigError, ModelError

Size = Annotated[int, Field(ge=1, le=8192)]


class ClassVector(Config):
    """Output [1, classes]: the best classes are reported."""

    kind: Literal["classes"] = "classes"
    top_k: int = parameter(5, "how many classes to report", low=1, high=1000)
    softmax: bool = parameter(True, "whether the outputs are logits, to be turned into probabilities")


class Centers(Config):
    """Output [1, classes + 4, h, w]: class heat maps, offset of the centre, size of the box."""

    kind: Literal["centers"] = "centers"
    stride: int = parameter(8, "pixels of the input per pixel of the output", low=1, high=128)
    score_threshold: float = parameter(0.4, "boxes below this score are dropped", low=0, high=1)


class Boxes(Config):
    """Outputs (boxes [1, n, 4], scores [1, n, classes]): non-maximum suppression gives the detections."""

    kind: Literal["boxes"] = "boxes"
    boxes: str = parameter("boxes", "name of the output with the boxes")
    scores: str = parameter("scores", "name of the output with the class scores")
    corners: bool = parameter(True, "whether a box is (x1, y1, x2, y2), otherwise (centre x, centre y, width, height)")
    relative: bool = parameter(True, "whether coordinates are fractions of the image, otherwise pixels of the input")
    background: int | None = parameter(None, "class that stands for nothing, if there is one")
    score_threshold: float = parameter(0.5, "boxes below this score are dropped", low=0, high=1)
    iou_threshold: float = parameter(0.45, "boxes of one class that overlap more are merged", low=0, high=1)


class DenseMap(Config):
    """Output [1, classes, h, w]: the best class of each pixel."""

    kind: Literal["map"] = "map"


Decoder = Annotated[ClassVector | Centers | Boxes | DenseMap, Field(discriminator="kind")]


class ModelCard(Config):
    """How to load a model, prepare its input and read its outputs."""

    name: str = parameter("", "what results call the model")
    factory: str = parameter(
        "", "where the model comes from: torchvision:NAME, module:factory, file.py:factory, a file"
    )
    weights: Path | None = parameter(None, "safetensors or state dict; relative to the card")
    input_size: tuple[Size, Size] | None = parameter(None, "(height, width) of the model's input")
    channel_order: Literal["rgb", "bgr"] = parameter("rgb", "order of the channels of the model's input")
    scale: float = parameter(1 / 255, "factor applied to the 8-bit values first")
    mean: tuple[float, float, float] = parameter((0.485, 0.456, 0.406), "subtracted next, per channel of the input")
    std: tuple[float, float, float] = parameter((0.229, 0.224, 0.225), "divided by last, per channel of the input")
    decoder: Decoder | None = parameter(None, "what the outputs mean; guessed from their shape when absent")
    labels: tuple[str, ...] = parameter((), "names of the classes")


def read_card(path: Path) -> ModelCard:
    """Read a card; paths in it become absolute.

    Raises:
        ModelError: the file cannot be read or says something unusable.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ModelError(f"model card {path} cannot be read: {error}") from None
    if not isinstance(content, dict) or not content.get("factory"):
        raise ModelError(f"model card {path} must be a mapping with at least 'factory'")
    try:
        card = ModelCard.checked(**{"name": path.stem, **content})
    except ConfigError as error:
        raise ModelError(f"model card {path}: {error}") from None
    weights = path.parent / card.weights if card.weights else None
    factory = card.factory
    if (path.parent / factory.partition(":")[0]).is_file():
        factory = str(path.parent / factory)
    return card.model_copy(update={"weights": weights, "factory": factory})
