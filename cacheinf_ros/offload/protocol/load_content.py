# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The content of a LOAD packet: how busy the server is, from 0 to 1."""

from __future__ import annotations

import struct

_LOAD = struct.Struct("<f")


def load_content(busy: float) -> bytes:
    """Encode how busy a server is as the content of a LOAD packet."""
    return _LOAD.pack(busy)


def load_from(content: bytes) -> float | None:
    """Decode the content of a LOAD packet; returns None where it makes no sense."""
    if len(content) != _LOAD.size:
        return None
    busy: float = _LOAD.unpack(content)[0]
    return busy if 0.0 <= busy <= 1.0 else None
