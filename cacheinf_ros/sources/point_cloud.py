# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Points of a message with the fields of sensor_msgs/PointCloud2, read without ROS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import MessageError, quoted

_KINDS = {7: "f4", 8: "f8"}  # PointField.FLOAT32, FLOAT64
_COORDINATES = ("x", "y", "z")


def points_of(message: Any) -> NDArray[np.float64]:
    """Return the coordinates of all points, float64 [n, 3]; of points that are not known some are NaN.

    Raises:
        MessageError: the message lacks a coordinate, or its data is not as long as it says.
    """
    kind = np.dtype(
        {
            "names": _COORDINATES,
            "formats": [_format(message, name) for name in _COORDINATES],
            "offsets": [_field(message.fields, name).offset for name in _COORDINATES],
            "itemsize": message.point_step,
        }
    )
    height, width, row_step = message.height, message.width, message.row_step
    if row_step < width * message.point_step or len(message.data) < height * row_step:
        raise MessageError(
            f"a cloud of {height}x{width} points of {message.point_step} bytes has {len(message.data)} bytes in rows "
            f"of {row_step}: too few"
        )
    if not height * width:
        return np.empty((0, len(_COORDINATES)))
    cloud: NDArray[Any] = np.ndarray((height, width), kind, message.data, strides=(row_step, message.point_step))
    return np.stack([cloud[name].ravel().astype(np.float64) for name in _COORDINATES], axis=1)


def _format(message: Any, name: str) -> str:
    """Return numpy's name for the type of a coordinate, after checking that it lies in the point."""
    field = _field(message.fields, name)
    kind = _KINDS.get(field.datatype)
    if kind is None or field.count != 1:
        raise MessageError(f"coordinate {name} of a cloud's points is of type {field.datatype}: publish it as FLOAT32")
    if field.offset + np.dtype(kind).itemsize > message.point_step:
        raise MessageError(f"coordinate {name} at byte {field.offset} is not within points of {message.point_step}")
    return f"{'>' if message.is_bigendian else '<'}{kind}"


def _field(fields: Sequence[Any], name: str) -> Any:
    for field in fields:
        if field.name == name:
            return field
    named = quoted(", ".join(str(field.name) for field in fields))
    raise MessageError(f"the points of a cloud have no {name}, but {named}: publish x, y and z")
