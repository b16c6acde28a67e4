# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Encoding of the start of a shared frame."""

from __future__ import annotations

import struct

import numpy as np

from cacheinf_ros.engine import FrameStart, Partition, PartitionSpace
from cacheinf_ros.engine.execution.border import Border
from cacheinf_ros.errors import MessageError
from cacheinf_ros.offload.protocol.frames import WireImage
from cacheinf_ros.offload.protocol.pixels import decode_pixels, encode_pixels

_HEADER = struct.Struct("<BBiiI")  # refresh, outside, shift, operators


def encode_start(start: FrameStart, space: PartitionSpace, wire: WireImage, quality: int) -> bytes:
    """Encode the start of a frame; ``quality`` is that of JPEG."""
    rows = np.array([start.partition.robot_rows[name] for name in space.heights], np.int32)
    header = _HEADER.pack(start.refresh, int(start.outside), *start.shift, len(rows))
    return header + rows.tobytes() + encode_pixels(start.pixels, wire, quality)


def decode_start(data: bytes, space: PartitionSpace) -> FrameStart:
    """Decode the start of a frame, as :func:`encode_start` writes it.

    Raises:
        MessageError: the bytes are no start of a frame of this network.
    """
    if len(data) < _HEADER.size:
        raise MessageError(f"a frame's start of {len(data)} bytes is cut off")
    refresh, outside, dx, dy, operators = _HEADER.unpack_from(data)
    end = _HEADER.size + 4 * len(space.heights)
    if operators != len(space.heights) or len(data) < end or outside > Border.ALL or refresh > 1:
        raise MessageError(f"a frame's start is for {operators} operators, not for {len(space.heights)}")
    height, width, _ = next(iter(space.shapes.values()))
    if abs(dx) > width or abs(dy) > height:
        raise MessageError(f"a frame's start moves everything by {dx}, {dy} pixels")
    rows = np.frombuffer(data, np.int32, operators, _HEADER.size)
    return FrameStart(
        partition=Partition(robot_rows=dict(zip(space.heights, rows.tolist(), strict=True))),
        refresh=bool(refresh),
        outside=Border(outside),
        shift=(dx, dy),
        pixels=decode_pixels(data[end:], height, width),
    )
