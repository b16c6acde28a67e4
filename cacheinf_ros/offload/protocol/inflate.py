# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Unpacking of what others have sent, up to the size that is expected."""

from __future__ import annotations

import zlib

from cacheinf_ros.errors import MessageError


def inflated(data: bytes, size: int, what: str) -> bytes:
    """So many bytes, unpacked by zlib; no more memory is taken.

    Raises:
        MessageError: they are not so many, or not packed; ``what``: names them.
    """
    try:
        plain = zlib.decompressobj().decompress(data, size + 1)
    except zlib.error as error:
        raise MessageError(f"{what} cannot be unpacked: {error}") from None
    if len(plain) != size:
        raise MessageError(f"{what}: {len(plain)} bytes came unpacked, not {size}")
    return plain
