# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Decompression of received data, up to the size that is expected."""

from __future__ import annotations

import zlib

from cacheinf_ros.errors import MessageError


def inflated(data: bytes, size: int, what: str) -> bytes:
    """Return exactly ``size`` bytes, decompressed by zlib; no more memory than that is taken.

    Raises:
        MessageError: the data, which ``what`` names, is not compressed, or has another size.
    """
    try:
        plain = zlib.decompressobj().decompress(data, size + 1)
    except zlib.error as error:
        raise MessageError(f"{what} cannot be unpacked: {error}") from None
    if len(plain) != size:
        raise MessageError(f"{what}: {len(plain)} bytes came unpacked, not {size}")
    return plain
