# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a bad link does to packets: for tests and ``cacheinf soak``."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from cacheinf_ros.offload.protocol.packets import Packet

HARMLESS = ("twice", "foreign", "past")
KINDS = ("lost", "late", "reordered", "damaged", "cut_off", *HARMLESS)
_OVERTAKEN_BY = {"late": 10, "reordered": 1}  # packets, of all that cross


class Faults:
    """Hands packets on, or does not.

    Attributes:
        is_cut: nothing crosses.
        counts: how often each kind of fault was injected.
    """

    def __init__(self, seed: int, share: float, kinds: tuple[str, ...]) -> None:
        """``share``: of the packets that something befalls; ``kinds``: what, of :data:`KINDS`."""
        self._random = random.Random(seed)
        self._share = share
        self._kinds = kinds
        self._held: list[tuple[int, Packet]] = []  # and how many packets are still to overtake it
        self.is_cut = False
        self.counts: Counter[str] = Counter()

    def __call__(self, packet: Packet) -> list[Packet]:
        """Return what arrives in place of a packet, in this order."""
        if self.is_cut:
            return []
        self._held = [(ahead - 1, packet) for ahead, packet in self._held]
        held = [packet for ahead, packet in self._held if ahead <= 0]
        self._held = [each for each in self._held if each[0] > 0]
        if self._random.random() >= self._share:
            return [packet, *held]
        kind = self._random.choice(self._kinds)
        self.counts[kind] += 1
        if kind == "lost":
            return held
        if kind == "twice":
            return [packet, packet, *held]
        if kind in _OVERTAKEN_BY:
            self._held.append((_OVERTAKEN_BY[kind], packet))
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
