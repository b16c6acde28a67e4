# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Moves answers along with the picture between two computed ones by optical flow, as trackers beside a detector do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.bench.timing import measured
from cacheinf_ros.engine.decisions import BoxDecisions, ClassMaps, SoftBoxes, Task, has_places

Image = NDArray[np.uint8]
_WIDTH = 320  # pixels, of the picture in which motion is estimated
_LEAST_SIDE = 32  # pixels: OpenCV's dense flow reads beyond smaller pictures, and ends in an error, or the process
_GRID = 6  # points per side of a box
_LOST = -1e4  # coordinate of a point that was not found again: far outside of all pictures
_RETURNS = 1.0  # pixels that a point may be off after it was tracked forward and back


class _Follow(Protocol):
    def __call__(self, answer: Any, before: Image, now: Image, size: tuple[int, int]) -> Any:
        """Return the answer for the next picture; both are grey, ``size``: (height, width) of the frame."""


def can_follow(task: Task[Any], answer: Any) -> bool:
    """Tell whether an answer of this kind has places that can move with the picture."""
    return isinstance(task, BoxDecisions) or (isinstance(task, ClassMaps) and has_places(answer))


def follow_all(
    task: Task[Any], images: Sequence[Image], dense: Sequence[Any], plan: Sequence[int]
) -> tuple[list[Any], list[float]]:
    """Give the dense answer to frames that are computed, and move it along on the others.

    Args:
        images: the frames, uint8 [height, width, 3].
        dense: the answers of dense execution.
        plan: for each frame the last one that is computed.

    Returns:
        the answers, and the milliseconds that moving them took, without computing.
    """
    follow: _Follow = follow_boxes if isinstance(task, BoxDecisions) else follow_classes
    answers: list[Any] = []
    took: list[float] = []
    before: Image | None = None
    for index, image in enumerate(images):
        now, grey_ms = measured(_grey, image)
        if before is None or plan[index] == index:
            answer, moved_ms = dense[index], 0.0
        else:
            answer, moved_ms = measured(follow, answers[-1], before, now, (image.shape[0], image.shape[1]))
        answers.append(answer)
        took.append(grey_ms + moved_ms)
        before = now
    return answers, took


def follow_boxes(answer: SoftBoxes, before: Image, now: Image, size: tuple[int, int]) -> SoftBoxes:
    """Move each box, with its key points, by the median flow of points in it that track back to their start.

    Without such points it stays.
    """
    if not len(answer.boxes):
        return answer
    scale = np.array([now.shape[1] / size[1], now.shape[0] / size[0]])
    steps = (np.arange(_GRID) + 0.5) / _GRID
    grid = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    points = (answer.boxes[:, None, :2] + grid * answer.boxes[:, None, 2:]) * scale
    flat = np.ascontiguousarray(points.reshape(-1, 1, 2), np.float32)
    there = _tracked(before, now, flat)
    back = _tracked(now, before, there)
    good = np.linalg.norm((back - flat).reshape(-1, 2), axis=1) < _RETURNS
    shifts = ((there - flat).reshape(points.shape)) / scale
    boxes, key_points = answer.boxes.copy(), None if answer.key_points is None else answer.key_points.copy()
    for index, (shift, usable) in enumerate(zip(shifts, good.reshape(points.shape[:2]), strict=True)):
        if usable.any():
            step = np.median(shift[usable], axis=0)
            boxes[index, :2] += step
            if key_points is not None:
                key_points[index, :, :2] += step
    return replace(answer, boxes=boxes, key_points=key_points)


def _tracked(before: Image, now: Image, points: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return where points are found again, float32 [n, 1, 2]; far outside the picture where they are not."""
    there, found, _ = cv2.calcOpticalFlowPyrLK(before, now, points, np.empty_like(points))
    return np.where(np.asarray(found, np.bool_)[..., None], there, np.float32(_LOST)).astype(np.float32)


def follow_classes(answer: NDArray[Any], before: Image, now: Image, size: tuple[int, int]) -> NDArray[Any]:
    """Move each pixel of a class map, [height, width], by dense optical flow."""
    height, width = answer.shape
    scale = np.array([width / now.shape[1], height / now.shape[0]], np.float32)
    flow = np.asarray(cv2.resize(_dense_flow(now, before), (width, height)), np.float32) * scale
    rows, columns = np.mgrid[:height, :width].astype(np.float32)
    classes = answer if answer.dtype == np.uint8 else answer.astype(np.float32)  # a type that OpenCV can remap
    moved = cv2.remap(
        classes, columns + flow[..., 0], rows + flow[..., 1], cv2.INTER_NEAREST, borderMode=cv2.BORDER_REPLICATE
    )
    return np.asarray(moved, answer.dtype)


def _dense_flow(first: Image, second: Image) -> NDArray[np.float32]:
    """Return how far each pixel of the first picture has moved (x, y) in the second, float32 [height, width, 2]."""
    method = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST)
    height, width = first.shape
    below, beside = max(0, _LEAST_SIDE - height), max(0, _LEAST_SIDE - width)
    if below or beside:
        first, second = (
            np.asarray(cv2.copyMakeBorder(each, 0, below, 0, beside, cv2.BORDER_REPLICATE), np.uint8)
            for each in (first, second)
        )
    flow = method.calc(first, second, np.zeros((*first.shape, 2), np.float32))
    return np.asarray(flow[:height, :width], np.float32)


def _grey(image: Image) -> Image:
    height, width = image.shape[:2]
    size = (min(width, _WIDTH), max(1, height * min(width, _WIDTH) // width))
    return np.asarray(cv2.cvtColor(cv2.resize(image, size, interpolation=cv2.INTER_AREA), cv2.COLOR_BGR2GRAY), np.uint8)
