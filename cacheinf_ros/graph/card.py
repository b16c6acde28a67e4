# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Model cards: a YAML file that says how a model wants its images and what its outputs mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from pydantic import Field, model_validator

from cacheinf_ros.config import Config, parameter
from cacheinf_ros.errors import ConfigError, ModelError

Size = Annotated[int, Field(ge=1, le=8192)]
Resize = Literal["stretch", "letterbox", "letterbox_corner"]
"""How a frame gets the size of the model's input: with other proportions; in the middle of a margin; in the left upper
corner of one."""


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


class SsdBoxes(Config):
    """Outputs (boxes [1, n, 4], scores [1, n, classes]) relative to prior boxes, as in SSD (arXiv 1512.02325).

    The defaults are those of the face detector RFB-320 (Ultra-Light-Fast-Generic-Face-Detector-1MB).
    """

    kind: Literal["ssd"] = "ssd"
    boxes: str = parameter("boxes", "name of the output with the boxes' offsets")
    scores: str = parameter("scores", "name of the output with the class scores")
    strides: tuple[Size, ...] = parameter((8, 16, 32, 64), "pixels of the input per prior's cell, of each head")
    min_boxes: tuple[tuple[float, ...], ...] = parameter(
        ((10, 16, 24), (32, 48), (64, 96), (128, 192, 256)), "sides of a cell's square priors in pixels, of each head"
    )
    center_variance: float = parameter(0.1, "factor of the offsets of centres", low=0)
    size_variance: float = parameter(0.2, "factor of the logarithms of sizes", low=0)
    softmax: bool = parameter(False, "whether the scores are logits, to be turned into probabilities")
    background: int | None = parameter(0, "class that stands for nothing, if there is one")
    score_threshold: float = parameter(0.5, "boxes below this score are dropped", low=0, high=1)
    iou_threshold: float = parameter(0.45, "boxes of one class that overlap more are merged", low=0, high=1)

    @model_validator(mode="after")
    def _one_list_per_head(self) -> Self:
        if len(self.strides) != len(self.min_boxes):
            raise ValueError(f"{len(self.strides)} strides and {len(self.min_boxes)} lists of min_boxes: one per head")
        return self

    def grids(self, input_size: tuple[int, int]) -> tuple[tuple[int, int], ...]:
        """(rows, columns) of the cells of each head."""
        return tuple((-(-input_size[0] // stride), -(-input_size[1] // stride)) for stride in self.strides)


class FastestDet(Config):
    """Output [1, 5 + classes, h, w]: score, box (centre x, y, width, height) and classes of each cell."""

    kind: Literal["fastestdet"] = "fastestdet"
    score_threshold: float = parameter(0.5, "boxes below this score are dropped", low=0, high=1)
    iou_threshold: float = parameter(0.45, "boxes of one class that overlap more are merged", low=0, high=1)


class Attribute(Config):
    """One of several class vectors [1, classes], of logits."""

    name: str = parameter("", "what it tells")
    output: str = parameter("", "name of the output")
    labels: tuple[str, ...] = parameter((), "names of its classes")


class Attributes(Config):
    """Several outputs [1, classes]: of each the best class is reported, as ``NAME: CLASS``."""

    kind: Literal["attributes"] = "attributes"
    attributes: tuple[Attribute, ...] = parameter((), "in the order of reports")


class DenseMap(Config):
    """Output [1, classes, h, w]: the best class of each pixel."""

    kind: Literal["map"] = "map"


Detector = Centers | Boxes | SsdBoxes | FastestDet
"""Decoders that give boxes."""

Decoder = Annotated[ClassVector | Attributes | Detector | DenseMap, Field(discriminator="kind")]


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
