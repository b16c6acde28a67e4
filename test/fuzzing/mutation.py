# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Damage to otherwise valid bytes, slight enough that they still reach a decoder."""

from __future__ import annotations

import random

_TELLING = (0, 1, 0x7F, 0x80, 0xFF)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return the bytes with one to three places changed, cut out, repeated, or cut off at the end."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        _damage(changed, rng)
    return bytes(changed)


def _damage(data: bytearray, rng: random.Random) -> None:
    at, many = rng.randrange(len(data) + 1), rng.choice((1, 2, 4, 8, 16))
    match rng.randrange(6):
        case 0 if at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        case 1:
            data[at : at + many] = bytes([rng.choice(_TELLING)]) * len(data[at : at + many])
        case 2:
            data[at : at + many] = rng.randbytes(len(data[at : at + many]))
        case 3:
            del data[at : at + many]
        case 4:
            data[at:at] = data[at : at + many]
        case _:
            del data[at if rng.random() < 0.3 else max(0, len(data) - many) :]
