# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Outlines of objects from prototypes of masks (YOLACT, arXiv 1904.02689, as YOLO's segmenters use them)."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.decoders.instances import Outlines

Size = tuple[int, int]
_MARGIN = 1  # prototypes' pixels around a box that interpolation within it reads


def mask_outlines(
    coefficients: NDArray[np.float32], prototypes: NDArray[Any], boxes: NDArray[np.float32], input_size: Size
) -> tuple[Outlines, ...]:
    """Trace the borders of each object's mask: where the weighted sum of the prototypes is positive, within its box.

    Args:
        coefficients: float32 [n, masks].
        prototypes: float32 [masks, h, w], of the whole input.
        boxes: float32 [n, 4], (x, y, width, height) in pixels of the input.
        input_size: (height, width).

    Returns:
        The polygons of each object in pixels of the input, none where its mask is empty; holes are left out.
    """
    return tuple(
        _outlines(weights, prototypes, box, input_size) for weights, box in zip(coefficients, boxes, strict=True)
    )


def _outlines(
    weights: NDArray[np.float32], prototypes: NDArray[Any], box: NDArray[np.float32], input_size: Size
) -> Outlines:
    sizes = prototypes.shape[1:]
    spans = [
        _span(box[axis], box[axis] + box[axis + 2], input_size[1 - axis], sizes[1 - axis]) for axis in (0, 1)
    ]  # fmt: skip
    if any(first >= last for span in spans for first, last in span):
        return ()
    (inner_x, outer_x), (inner_y, outer_y) = spans
    logits = np.tensordot(weights, prototypes[:, slice(*outer_y), slice(*outer_x)], 1).astype(np.float32)
    scale_x, scale_y = input_size[1] / sizes[1], input_size[0] / sizes[0]
    left, right = (round(end * scale_x) for end in outer_x)
    top, bottom = (round(end * scale_y) for end in outer_y)
    large = cv2.resize(logits, (right - left, bottom - top), interpolation=cv2.INTER_LINEAR)
    inside = large[inner_y[0] - top : inner_y[1] - top, inner_x[0] - left : inner_x[1] - left] > 0
    contours, _ = cv2.findContours(inside.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    corner = np.array([inner_x[0] + 0.5, inner_y[0] + 0.5], np.float32)  # contours go through pixels' centres
    return tuple(contour[:, 0].astype(np.float32) + corner for contour in contours)


def _span(first: float, last: float, pixels: int, cells: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return (first, last + 1) of the input's pixels in a box, and of the prototypes' pixels that they depend on."""
    begin, end = max(0, int(np.ceil(first))), min(pixels, int(np.ceil(last)))
    scale = cells / pixels
    outer = max(0, int(np.floor(begin * scale)) - _MARGIN), min(cells, int(np.ceil(end * scale)) + _MARGIN)
    return (begin, end), outer
