# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a bad link does to packets."""

from __future__ import annotations

import random
from dataclasses import replace

from cacheinf_ros.offload.protocol.packets import Packet

HARMLESS = ("twice", "foreign", "past")
KINDS = ("lost", "later", "damaged", "cut_off", *HARMLESS)


class Faults:
    """What a link does to packets."""

    def __init__(self, seed: int, share: float, kinds: tuple[str, ...]) -> None:
        self._random = random.Random(seed)
        self._share = share
        self._kinds = kinds
        self._held: list[Packet] = []
        self.is_cut = False

    def __call__(self, packet: Packet) -> list[Packet]:
        if self.is_cut:
            return []
        held, self._held = self._held, []
        if self._random.random() >= self._share:
            return [packet, *held]
        kind = self._random.choice(self._kinds)
        if kind == "lost":
            return held
        if kind == "twice":
            return [packet, packet, *held]
        if kind == "later":
            self._held = [packet]
            return held
        if kind == "damaged" and packet.data:
            data = bytearray(packet.data)
            data[self._random.randrange(len(data))] ^= 1 << self._random.randrange(8)
            return [replace(packet, data=bytes(data)), *held]
        if kind == "cut_off":
            return [replace(packet, data=packet.data[:-1]), *held]
        if kind == "foreign":
            return [replace(packet, session="another"), packet, *held]
        return [replace(packet, epoch=packet.epoch - 1), packet, *held]  # of the past
