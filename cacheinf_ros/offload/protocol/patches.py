# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Encoding of new values of a tensor: which pixels, as one bit each, and their values.

    header | scales (int8 only: float32 per channel) | bits of the pixels, row by row | values, pixel by pixel

Values of floats may be float32, float16, or int8 with a scale for each channel; levels are uint8 and are sent as they
are. Bits and values together may be compressed. Whatever is read is checked against what is expected before any memory
is allocated.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine import Patch
from cacheinf_ros.errors import MessageError
from cacheinf_ros.offload.protocol.frames import WireType
from cacheinf_ros.offload.protocol.inflate import inflated

_HEADER = struct.Struct("<IIIBB")  # first row, last row, values, type, compression
_PLAIN, _DEFLATED = range(2)
_LEVEL = 1  # zlib level: a higher one costs time and gains little on feature maps
_INT8 = 127.0
_VALUES = {
    "float32": np.float32, "float16": np.float16, "int8": np.int8, "int64": np.int64, "int32": np.int32,
    "uint8": np.uint8, "bool": np.bool_, "float64": np.float64,
}  # fmt: skip
_TYPES = tuple(_VALUES)
_LEVELS = "uint8"


def encode_patch(patch: Patch, wire: WireType, *, compress: bool = False) -> bytes:
    """Encode a patch; levels, and tensors that are no feature maps, are sent as they are."""
    name = wire.value if patch.is_map and patch.values.dtype == np.float32 else str(patch.values.dtype)
    if name not in _VALUES:
        raise MessageError(f"tensors of {patch.values.dtype} cannot be sent, only of {', '.join(_TYPES)}")
    scales, values = _scaled(patch.values) if name == "int8" else (b"", patch.values)
    with np.errstate(over="ignore"):  # what exceeds float16 becomes infinite, which the receiver refuses
        content = np.packbits(patch.mask, axis=None).tobytes() + values.astype(_VALUES[name]).tobytes()
    compression = _PLAIN
    if compress:
        compression, content = _DEFLATED, zlib.compress(content, _LEVEL)
    first, last = patch.rows
    header = _HEADER.pack(first, last, patch.values.size, _TYPES.index(name), compression)
    return header + scales + content


def decode_patch(data: bytes, rows: tuple[int, int], width: int, channels: int, *, are_levels: bool = False) -> Patch:
    """Decode a patch, as :func:`encode_patch` writes it.

    The values of a tensor that is no feature map are those that lie in memory.

    Args:
        data: the bytes.
        rows, width, channels: the expected shape.
        are_levels: whether levels are expected; no other type is accepted then.

    Raises:
        MessageError: the bytes are no patch of the expected shape, or hold a number that is not finite.
    """
    if len(data) < _HEADER.size:
        raise MessageError(f"a patch of {len(data)} bytes is cut off")
    first, last, count, kind, compression = _HEADER.unpack_from(data)
    pixels = (rows[1] - rows[0]) * width
    if (first, last) != rows:
        raise MessageError(f"a patch of rows {first} to {last} came where {rows[0]} to {rows[1]} were expected")
    if kind >= len(_TYPES) or compression > _DEFLATED or count > pixels * channels or count % channels:
        raise MessageError(f"a patch of {count} values of type {kind} cannot be: {pixels} pixels x {channels} channels")
    if are_levels and _TYPES[kind] != _LEVELS:
        raise MessageError(f"a patch of {_TYPES[kind]} came where levels of {_LEVELS} were expected")
    dtype, is_scaled = np.dtype(_VALUES[_TYPES[kind]]), _TYPES[kind] == "int8"
    at = _HEADER.size + 4 * channels * is_scaled
    bit_bytes, value_bytes = -(-pixels // 8), count * dtype.itemsize
    if len(data) < at:
        raise MessageError(f"the scales of a patch of {len(data)} bytes are cut off")
    content = _plain(data[at:], compression, bit_bytes + value_bytes)
    mask = np.unpackbits(np.frombuffer(content, np.uint8, bit_bytes), count=pixels).reshape(rows[1] - rows[0], width)
    if int(mask.sum()) * channels != count:
        raise MessageError(f"a patch flags {int(mask.sum())} pixels and holds {count // channels}")
    values: NDArray[np.generic] = np.frombuffer(content, dtype, count, bit_bytes).reshape(-1, channels)
    if is_scaled:
        values = values * np.frombuffer(data, np.float32, channels, _HEADER.size)
    else:
        values = values.astype(np.float32 if dtype == np.float16 else dtype)  # a copy: what was received is read-only
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise MessageError("a patch holds what is no finite number")
    return Patch(rows=rows, mask=mask, values=values)


def _scaled(values: NDArray[np.float32]) -> tuple[bytes, NDArray[np.float32]]:
    """Return the scales, float32 [channels], as bytes, and the values divided by them and rounded."""
    largest = np.abs(values).max(axis=0, initial=0.0) / _INT8
    scales = np.where(largest > 0, largest, 1.0).astype(np.float32)
    return scales.tobytes(), np.rint(values / scales)


def _plain(content: bytes, compression: int, size: int) -> bytes:
    if compression == _DEFLATED:
        return inflated(content, size, "a patch")
    if len(content) != size:
        raise MessageError(f"a patch holds {len(content)} bytes where {size} are announced")
    return content
