# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a bad link does to packets, for tests and ``cacheinf soak``."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import replace

from cacheinf_ros.offload.protocol.packets import Packet

HARMLESS = ("twice", "foreign", "past")
KINDS = ("lost", "late", "reordered", "damaged", "cut_off", *HARMLESS)
_OVERTAKEN_BY = {"late": 10, "reordered": 1}  # packets to the same receiver that overtake it
_NUMBERS = {"epoch": 32, "kind": 8, "frame": 32, "tensor": 16, "part": 16, "parts": 16}  # bits of a packet's fields


class Faults:
    """Forwards packets, or injects faults into them.

    Attributes:
        is_cut: whether nothing crosses.
        counts: how often each kind of fault was injected. All kinds are in it from the start, so that another
            thread may iterate over it.
    """

    def __init__(self, seed: int, share: float, kinds: tuple[str, ...]) -> None:
        """Prepare; ``share`` is that of the packets that get a fault, ``kinds`` lists the faults, of :data:`KINDS`."""
        self._random = random.Random(seed)
        self._share = share
        self._kinds = kinds
        # by receiver: each held packet, and how many packets are still to overtake it
        self._held: defaultdict[str, list[tuple[int, Packet]]] = defaultdict(list)
        self.is_cut = False
        self.counts: Counter[str] = Counter(dict.fromkeys(kinds, 0))

    def __call__(self, packet: Packet, receiver: str) -> list[Packet]:
        """Return the packets that reach a receiver in place of a packet, in this order."""
        if self.is_cut:
            return []
        held = self._overtaken(receiver)
        if self._random.random() >= self._share:
            return [packet, *held]
        kind = self._random.choice(self._kinds)
        self.counts[kind] += 1
        if kind == "lost":
            return held
        if kind == "twice":
            return [packet, packet, *held]
        if kind in _OVERTAKEN_BY:
            self._held[receiver].append((_OVERTAKEN_BY[kind], packet))
            return held
        if kind == "damaged":
            return [self._damaged(packet), *held]
        if kind == "cut_off":
            return [replace(packet, data=packet.data[:-1]), *held]
        if kind == "foreign":
            return [replace(packet, session="another").sealed(), packet, *held]
        return [replace(packet, epoch=max(packet.epoch - 1, 0)).sealed(), packet, *held]  # a packet of an earlier epoch

    def forget(self, receiver: str) -> None:
        """Drop the packets that are held for a receiver that is gone."""
        self._held.pop(receiver, None)

    def _damaged(self, packet: Packet) -> Packet:
        """Flip a bit, either of the data or of a number."""
        if packet.data and self._random.random() < 0.5:
            data = bytearray(packet.data)
            data[self._random.randrange(len(data))] ^= 1 << self._random.randrange(8)
            return replace(packet, data=bytes(data))
        name, bits = self._random.choice([*_NUMBERS.items()])
        return replace(packet, **{name: getattr(packet, name) ^ 1 << self._random.randrange(bits)})

    def _overtaken(self, receiver: str) -> list[Packet]:
        """Return the packets held for a receiver that are due after its next one, and hold them no more."""
        held = [(ahead - 1, packet) for ahead, packet in self._held.pop(receiver, [])]
        if waiting := [each for each in held if each[0] > 0]:
            self._held[receiver] = waiting
        return [packet for ahead, packet in held if ahead <= 0]
