# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Points of a message with the fields of sensor_msgs/PointCloud2, read without ROS."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import MessageError, quoted

_KINDS = {7: "f4", 8: "f8"}  # PointField.FLOAT32, FLOAT64
_COORDINATES = ("x", "y", "z")
_LARGEST_STEP = 2**20  # bytes of a point: more than anybody's, and within what numpy takes


def points_of(message: Any) -> NDArray[np.float64]:
    """Return the coordinates of all points, float64 [3, n], (x, y, z); of points that are not known some are NaN.

    Raises:
        MessageError: the message lacks a coordinate, or its data is shorter than it says.
    """
    height, width, step = message.height, message.width, message.point_step
    if not height * width:
        return np.empty((len(_COORDINATES), 0))
    places = [_place(message, name) for name in _COORDINATES]
    row_step = message.row_step if height > 1 else width * step
    if row_step < width * step or len(message.data) < (height - 1) * row_step + width * step:
        raise MessageError(
            f"a cloud of {height}x{width} points of {step} bytes has {len(message.data)} bytes in rows of {row_step}: "
            "too few"
        )
    found = np.empty((len(_COORDINATES), height * width))
    for axis, (kind, offset) in enumerate(places):
        cloud: NDArray[Any] = np.ndarray((height, width), kind, message.data, offset, (row_step, step))
        with np.errstate(invalid="ignore"):  # a NaN of any bits stays one
            found[axis] = cloud.ravel()
    return found


def _place(message: Any, name: str) -> tuple[np.dtype[Any], int]:
    """Return the type of a coordinate and its first byte in each point, after checking that it lies in the point."""
    field = next((each for each in message.fields if each.name == name), None)
    if field is None:
        named = quoted(", ".join(str(each.name) for each in message.fields))
        raise MessageError(f"the points of a cloud have no {name}, but {named}: publish x, y and z")
    kind = _KINDS.get(field.datatype)
    if kind is None:
        raise MessageError(f"coordinate {name} of a cloud's points is of type {field.datatype}: publish it as FLOAT32")
    if field.count > 1:  # some publishers leave it 0
        raise MessageError(f"coordinate {name} of a cloud's points has {field.count} values: publish one")
    number = np.dtype(f"{'>' if message.is_bigendian else '<'}{kind}")
    if not field.offset + number.itemsize <= message.point_step <= _LARGEST_STEP:
        raise MessageError(
            f"coordinate {name} at byte {field.offset} is not within points of {message.point_step} bytes, of "
            f"{_LARGEST_STEP} at most"
        )
    return number, field.offset
