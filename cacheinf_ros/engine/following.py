# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How the cache follows the camera: the picture that it stands for stays where it is, and is seen through a motion.

Moving feature maps with every frame would resample them, or round their motion to their own coarse pixels. So the
*keyframe*, the model's input as the cache holds it, keeps its place. What is active in a frame is painted where the
motion (keyframe -> frame) says that it lies on the keyframe, and outputs are mapped back by the same motion (CacheInf
section 4.2, equation 6, applied once at the input and once at the outputs). Execution stays exact for the keyframe.
When the camera has moved on by whole pixels of the coarsest feature map, all maps move by as much, without any error.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.engine.execution.propagation import TapTable, is_periodic
from cacheinf_ros.graph import Graph
from cacheinf_ros.graph.ir import Conv, Pool, Resample, is_map_without_channels

Size = tuple[int, int]


def in_input(motion: Motion, image_size: Size, input_size: Size) -> Motion:
    """Convert a motion in pixels of the frame to pixels of the model's input."""
    return motion.scaled(input_size[1] / image_size[1], input_size[0] / image_size[0])


def move_boxes(boxes: NDArray[np.float32], motion: Motion) -> NDArray[np.float32]:
    """Move boxes [n, 4], (x, y, width, height), by a motion: centres move, sides scale as the picture does there."""
    if not len(boxes) or motion.is_none:
        return boxes
    centres = np.column_stack([boxes[:, :2] + boxes[:, 2:] / 2, np.ones(len(boxes))])
    moved = centres @ motion.matrix.T
    places, depth = moved[:, :2] / moved[:, 2:], moved[:, 2:, None]
    # derivative of the projection, [n, 2, 2]
    slopes = (motion.matrix[None, :2, :2] - places[:, :, None] * motion.matrix[None, 2:, :2]) / depth
    sides = boxes[:, 2:] * np.linalg.norm(slopes, axis=1)
    return np.concatenate([places - sides / 2, sides], axis=1).astype(np.float32)


def move_points(points: NDArray[np.float32], motion: Motion) -> NDArray[np.float32]:
    """Move points [n, 2], (x, y), by a motion."""
    if not len(points) or motion.is_none:
        return points
    moved = np.column_stack([points, np.ones(len(points))]) @ motion.matrix.T
    return (moved[:, :2] / moved[:, 2:]).astype(np.float32)


def move_map(values: NDArray[Any], motion: Motion, input_size: Size) -> NDArray[Any]:
    """Move a feature map [1, channels, height, width] from the keyframe to the frame; the border is continued.

    Floats are interpolated bilinearly. Of whole numbers, such as classes, the nearest is taken.

    Args:
        motion: keyframe -> frame, in pixels of the model's input.
    """
    height, width = values.shape[2:]
    back = in_input(motion, input_size, (height, width)).inverse().matrix
    y, x = np.mgrid[:height, :width]
    places = np.stack([x, y, np.ones_like(x)], axis=-1) @ back.T
    places = places[..., :2] / places[..., 2:]
    if values.dtype.kind != "f":
        rows, columns = (_nearest(places[..., axis], side) for axis, side in ((1, height), (0, width)))
        return values[:, :, rows, columns]
    grid = places / (max(width - 1, 1), max(height - 1, 1)) * 2 - 1
    moved = functional.grid_sample(
        torch.from_numpy(np.ascontiguousarray(values, np.float32)), torch.from_numpy(grid.astype(np.float32))[None],
        padding_mode="border", align_corners=True,
    )  # fmt: skip
    return np.asarray(moved.numpy(), values.dtype)


def _nearest(places: NDArray[np.float64], side: int) -> NDArray[np.intp]:
    """Return the nearest pixels of a side; places that the motion leaves undefined are the first."""
    return np.nan_to_num(np.rint(places), nan=0.0).clip(0, side - 1).astype(np.intp)


def move_class_map(classes: NDArray[Any], motion: Motion, input_size: Size) -> NDArray[Any]:
    """Move a map of the class of each pixel, [height, width], as :func:`move_map` does, but by nearest neighbour.

    Returns:
        array of the same type and shape.
    """
    if motion.is_none:
        return classes
    height, width = classes.shape
    matrix = in_input(motion, input_size, (height, width)).matrix
    source = classes if classes.dtype == np.uint8 else classes.astype(np.float32)  # OpenCV moves no int32
    moved = cv2.warpPerspective(
        source, matrix, (width, height), flags=cv2.INTER_NEAREST, borderMode=cv2.BORDER_REPLICATE
    )
    return np.asarray(moved, classes.dtype)


def shifted(values: NDArray[Any], dx: int, dy: int) -> NDArray[Any]:
    """Move [..., height, width] right by dx and down by dy whole pixels; the border is continued."""
    height, width = values.shape[-2:]
    rows, columns = np.clip(np.arange(height) - dy, 0, height - 1), np.clip(np.arange(width) - dx, 0, width - 1)
    return np.asarray(values[..., rows, :][..., columns])


def is_map(output: NDArray[Any], input_size: Size) -> bool:
    """Tell whether an output is a feature map of more than one pixel: [1, channels, height, width].

    Maps of classes or depths may be without channels: [1, height, width].
    """
    if output.ndim == 3 and not is_map_without_channels(output.shape, input_size):
        return False
    return output.ndim in (3, 4) and output.shape[-2] * output.shape[-1] > 1


def shift_output(output: NDArray[Any], shift: tuple[int, int], input_size: Size) -> NDArray[Any]:
    """Move an output along with the keyframe, which moved by (dx, dy): by whole pixels of the output's own."""
    if not is_map(output, input_size):
        return output
    height, width = output.shape[-2:]
    return shifted(output, shift[0] * width // input_size[1], shift[1] * height // input_size[0])


def move_output(output: NDArray[Any], motion: Motion, input_size: Size) -> NDArray[Any]:
    """Convert an output for the keyframe to the frame: feature maps move by :func:`move_map`, others stay."""
    if motion.is_none or not is_map(output, input_size):
        return output
    by_channel = output if output.ndim == 4 else output[:, None]
    return move_map(by_channel, motion, input_size).reshape(output.shape)


def shift_unit(graph: Graph) -> Size | None:
    """Return (dy, dx), the smallest shift of the input in pixels that moves every map by whole pixels of its own.

    Returns None where there is none: the input is one pixel, a map's side does not divide the input's, what an operator
    reads does not move as far as its output (resampling that is not the same everywhere), or an operator reads nothing
    where its output lies (a dilated kernel of an even size): outputs that enter with a shift would depend on nothing
    that enters.
    """
    tensors = graph.tensors
    size = tensors[graph.input].size
    maps = [spec.size for spec in tensors.values() if spec.size is not None and spec.pixels > 1]
    if not maps or any(side % part for spec in maps for side, part in zip(size, spec, strict=True)):
        return None
    for operator in graph.operators:
        if not isinstance(operator, (Conv, Pool, Resample)):
            continue
        in_size = tensors[operator.inputs[0]].size
        if isinstance(operator, Resample):
            table = TapTable.of_taps(operator.rows, operator.columns)
            is_regular = is_periodic(operator.rows) and is_periodic(operator.columns)
        else:
            table = TapTable.of_window(operator.window)
            sides = zip(in_size, operator.window.stride, operator.window.out_size, strict=True)
            is_regular = all(out == 1 or side == stride * out for side, stride, out in sides)
        if not is_regular or not _reads_its_place(table, in_size):
            return None
    units = [int(np.lcm.reduce([side // part[axis] for part in maps])) for axis, side in enumerate(size)]
    return units[0], units[1]


def _reads_its_place(table: TapTable, in_size: Size) -> bool:
    """Tell whether every output reads an input pixel that covers some of the same part of the picture."""
    for taps, side in zip((table.rows, table.columns), in_size, strict=True):
        outputs = np.arange(len(taps))[:, None]
        begins, ends = taps * len(taps), (taps + 1) * len(taps)  # in fractions of a pixel that both sides share
        if not ((taps >= 0) & (begins < (outputs + 1) * side) & (ends > outputs * side)).any(axis=1).all():
            return False
    return True
