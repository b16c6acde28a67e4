# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Configurations by which a model card says what outputs mean: one per decoder."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from cacheinf_ros.config import Config, parameter, setting

Size = Annotated[int, Field(ge=1, le=8192)]


class ClassVector(Config):
    """Output [1, classes]: the best classes are reported."""

    kind: Literal["classes"] = "classes"
    top_k: int = parameter(5, "how many classes to report", low=1, high=1000)
    softmax: bool = parameter(True, "whether the outputs are logits, to be turned into probabilities")
    is_guess: bool = setting(False, "whether the network's last operator decided this, as no card does")


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
    activation: Literal["none", "softmax", "sigmoid"] = parameter("none", "what makes the scores probabilities")
    background: int | None = parameter(None, "class that stands for nothing, if there is one")
    score_threshold: float = parameter(0.5, "boxes below this score are dropped", low=0, high=1)
    iou_threshold: float = parameter(
        0.45, "boxes of one class that overlap more are merged; 1: none are (DETR)", low=0, high=1
    )


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
        """Return (rows, columns) of the cells of each head."""
        return tuple((-(-input_size[0] // stride), -(-input_size[1] // stride)) for stride in self.strides)


class FastestDet(Config):
    """Output [1, 5 + classes, h, w]: score, box (centre x, y, width, height) and classes of each cell."""

    kind: Literal["fastestdet"] = "fastestdet"
    score_threshold: float = parameter(0.5, "boxes below this score are dropped", low=0, high=1)
    iou_threshold: float = parameter(0.45, "boxes of one class that overlap more are merged", low=0, high=1)


class Yolo(Config):
    """Output [1, values, n] or [1, n, values] of YOLO's exports, for each of n cells.

    The values are (centre x, centre y, width, height), scores, and then coefficients of masks or key points.
    """

    kind: Literal["yolo"] = "yolo"
    values_first: bool = parameter(True, "whether the output is [1, values, n] (v8, v11), otherwise [1, n, values]")
    objectness: bool = parameter(False, "whether the first score is for any object, to be multiplied with the others")
    strides: tuple[Size, ...] = parameter(
        (), "where boxes are relative to cells (YOLOX): pixels of the input per cell of each grid; empty: they are not"
    )
    masks: str = parameter("", "name of the output with masks' prototypes [1, coefficients, h, w]; empty: none")
    key_points: int = parameter(0, "key points of each box", low=0, high=1000)
    key_point_values: int = parameter(3, "numbers of each: x, y, and a score if there are 3", low=2, high=3)
    score_threshold: float = parameter(0.25, "boxes below this score are dropped", low=0, high=1)
    iou_threshold: float = parameter(0.45, "boxes of one class that overlap more are merged", low=0, high=1)


class NanoDet(Config):
    """Scores [1, n, classes] and distances of sides [1, n, 4 * bins] of each grid, or both as one [1, n, both]."""

    kind: Literal["nanodet"] = "nanodet"
    strides: tuple[Size, ...] = parameter((8, 16, 32), "pixels of the input per cell of each grid")
    bins: int = parameter(8, "logits of each side's distance", low=2, high=100)
    cell_center: float = parameter(0.5, "where in its cell a box's point is, in cells: 0.5, of NanoDet-Plus 0")
    score_threshold: float = parameter(0.4, "boxes below this score are dropped", low=0, high=1)
    iou_threshold: float = parameter(0.6, "boxes of one class that overlap more are merged", low=0, high=1)


class Grids(Config):
    """Outputs of each grid of cells: boxes [1, n, 4], scores [1, n, classes] and key points [1, n, 2 * key points].

    n is the number of cells times that of boxes in each. The defaults are those of the face detector YuNet.
    """

    kind: Literal["grids"] = "grids"
    strides: tuple[Size, ...] = parameter((8, 16, 32), "pixels of the input per cell of each grid")
    distances: bool = parameter(
        False,
        "whether a box is its sides' distances from the cell's point (left, top, right, bottom; SCRFD), otherwise the "
        "offset of its centre and the logarithms of its width and height; in cells",
    )
    cell_center: float = parameter(0.0, "where in its cell a box's point is, in cells")
    objectness: bool = parameter(
        True, "whether a second output of scores, [1, n, 1], is for any object: the geometric mean of both counts"
    )
    key_points: int = parameter(5, "key points of each box", low=0, high=1000)
    activation: Literal["none", "sigmoid"] = parameter("none", "what makes the scores probabilities")
    score_threshold: float = parameter(0.6, "boxes below this score are dropped", low=0, high=1)
    iou_threshold: float = parameter(0.3, "boxes of one class that overlap more are merged", low=0, high=1)

    @model_validator(mode="after")
    def _can_be_told_apart(self) -> Self:
        if not self.strides or len(set(self.strides)) != len(self.strides):
            raise ValueError(f"strides {list(self.strides)}: give one stride for each grid, each another")
        if self.key_points == 2:  # outputs are told apart by their widths
            raise ValueError("key_points 2: they have as many values as a box, so that outputs cannot be told apart")
        return self


class Attribute(Config):
    """One of several class vectors [1, classes], of logits."""

    name: str = parameter("", "what it tells")
    output: str = parameter("", "name of the output")
    labels: tuple[str, ...] = parameter((), "names of its classes")


class Attributes(Config):
    """Several outputs [1, classes]: the best class of each is reported, as ``NAME: CLASS``."""

    kind: Literal["attributes"] = "attributes"
    attributes: tuple[Attribute, ...] = parameter((), "in the order of reports")


class DenseMap(Config):
    """Output [1, classes, h, w]: the best class of each pixel; or [1, h, w] of integers: the classes."""

    kind: Literal["map"] = "map"


class Raw(Config):
    """Any outputs whose values are what counts: regression, depth, optical flow, normals, pictures."""

    kind: Literal["raw"] = "raw"


Detector = Centers | Boxes | SsdBoxes | FastestDet | Yolo | NanoDet | Grids
"""The decoders that give boxes."""

Decoder = Annotated[ClassVector | Attributes | Detector | DenseMap | Raw, Field(discriminator="kind")]
