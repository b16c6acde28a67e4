# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The size of TIFF files from outside; their directory is checked before any memory is taken.

OpenCV allocates memory for a whole strip or tile: gigabytes for a picture of 64 x 64 pixels that claims large ones.
"""

from __future__ import annotations

import struct

_ORDERS = {b"II*\0": "<", b"MM\0*": ">"}
_TYPES = {3: "H", 4: "I"}  # SHORT and LONG; encoders use no other types here (TIFF 6.0)
_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _SAMPLES, _STRIP_ROWS = 256, 257, 258, 259, 277, 278
_READ = frozenset({_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _SAMPLES, _STRIP_ROWS})
_TILES = frozenset({322, 323, 324, 325})
_ALL_ROWS = 2**32 - 1
_COMPRESSIONS = frozenset({1, 5, 8, 32773, 32946})  # none, LZW, deflate, PackBits; others may state sizes of their own
_MOST_SAMPLES, _MOST_BITS = 4, 16
_MOST_ENTRIES = 256


def tiff_size(raw: bytes) -> tuple[int, int] | None:
    """Return (height, width) of a TIFF file such as image_transport writes; None for any other.

    Such a file's pixels have up to four channels of up to 16 bits, and lie in strips no larger than the picture.
    """
    tags = _tags(raw)
    height, width, rows = tags.get(_HEIGHT, 0), tags.get(_WIDTH, 0), tags.get(_STRIP_ROWS, _ALL_ROWS)
    is_bounded = (
        (rows <= height or rows == _ALL_ROWS)
        and not tags.keys() & _TILES
        and tags.get(_COMPRESSION, 1) in _COMPRESSIONS
        and tags.get(_SAMPLES, 1) <= _MOST_SAMPLES
        and tags.get(_BITS, 1) <= _MOST_BITS
    )
    return (height, width) if height and width and is_bounded else None


def _tags(raw: bytes) -> dict[int, int]:
    """Read the first directory: the largest value of each tag, 0 for tags of no interest; empty where damaged."""
    tags: dict[int, int] = {}
    order = _ORDERS.get(raw[:4])
    if order is None:
        return tags
    try:
        (at,) = struct.unpack_from(f"{order}I", raw, 4)
        (entries,) = struct.unpack_from(f"{order}H", raw, at)
        if entries > _MOST_ENTRIES or at + 2 + 12 * entries > len(raw):
            return {}
        for start in range(at + 2, at + 2 + 12 * entries, 12):
            (tag,) = struct.unpack_from(f"{order}H", raw, start)
            if tag in tags:  # a decoder might use the other one
                return {}
            tags[tag] = _largest(raw, order, start) if tag in _READ else 0
    except (struct.error, KeyError):
        return {}
    return tags


def _largest(raw: bytes, order: str, start: int) -> int:
    """Return the largest value of an entry; raises KeyError or struct.error for another type, too many, or a cut."""
    tag, kind, count = struct.unpack_from(f"{order}HHI", raw, start)
    if not 0 < count <= (_MOST_SAMPLES if tag == _BITS else 1):
        raise KeyError(count)
    values = f"{order}{count}{_TYPES[kind]}"
    is_inside = struct.calcsize(values) <= 4
    at = start + 8 if is_inside else struct.unpack_from(f"{order}I", raw, start + 8)[0]
    return max(struct.unpack_from(values, raw, at))
