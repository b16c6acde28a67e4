# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A camera that misbehaves: it loses, delays, repeats, reorders and damages frames, and its clock jumps."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.harness.churn import CameraFault, CameraFaults
from cacheinf_ros.harness.frame_ledger import FrameLedger
from cacheinf_ros.harness.soak_report import SoakConfig

if TYPE_CHECKING:
    from cacheinf_ros.nodes.robot_station import RobotStation

# A subscriber that is matched here may discover this publisher later: where the announcement was lost, Fast DDS repeats
# it after a heartbeat of 1 s and 0.1 s; twice that, and some more.
_DISCOVERED_S = 2.5
_BASE_NS = 10**15
_PICTURES = 1000  # the stamp's last digits say which picture it was
_JUMP_NS = 10 * 10**9
_NS_PER_S = 10**9
_JUMPS = {CameraFault.CLOCK_BACK: -_JUMP_NS, CameraFault.CLOCK_AHEAD: _JUMP_NS}
_OVERTAKEN_BY = {CameraFault.LATE: 3, CameraFault.REORDERED: 1}  # frames
_PAUSES_S = (1.0, 3.0)


def picture_of(stamp_ns: int) -> int:
    """Return the number of the picture that a robot's camera sent with a stamp."""
    return stamp_ns % _PICTURES


class SoakedCamera:
    """Publishes one robot's images, and enters each into the ledger.

    Attributes:
        paused_until_s: time before which no frames are sent.
    """

    def __init__(self, topic: str, station: RobotStation, ledger: FrameLedger, config: SoakConfig, seed: int) -> None:
        """Seed the faults; ``topic``: topic of the images."""
        self._topic = topic
        self._station = station
        self._ledger = ledger
        self._faults = CameraFaults(seed, config.rates.camera_share)
        self._random = random.Random(seed)
        self._period_ns = round(_NS_PER_S / config.rate / _PICTURES) * _PICTURES
        self._sent = self._jumps = self._jumped_ns = 0
        self.paused_until_s = 0.0
        self._is_new, self._matched_s = False, 0.0
        self._held: list[tuple[int, int, NDArray[np.uint8]]] = []  # (frames still to overtake it, stamp, image)

    def film(
        self, now_s: float, pictures: Sequence[NDArray[np.uint8]], *, is_owed: bool, misbehaves: bool
    ) -> CameraFault | None:
        """Send the next picture, or what a fault makes of it; returns the fault, or None.

        Args:
            is_owed: whether the node that must answer is there.
            misbehaves: whether faults may happen.
        """
        if now_s < self.paused_until_s:
            return None
        fault = self._faults.draw() if misbehaves else None
        if fault is CameraFault.PAUSED:
            self.paused_until_s = now_s + self._random.uniform(*_PAUSES_S)
            return fault
        if fault is CameraFault.RESTARTED:
            self._station.renew_camera(self._topic)
            self._is_new, self._matched_s = True, np.inf
        if fault in _JUMPS:
            self._jumped_ns += _JUMPS[fault]
            self._jumps += 1
        number = self._sent % len(pictures)
        # each jump adds a microsecond, so that no two frames have the same stamp
        offset = self._jumped_ns + self._jumps * _PICTURES
        stamp, image = _BASE_NS + self._sent * self._period_ns + offset + number, pictures[number]
        self._sent += 1
        due, self._held = self._overtaken()
        if fault in _OVERTAKEN_BY:
            self._held.append((_OVERTAKEN_BY[fault], stamp, image))
        elif fault is not CameraFault.LOST:
            due.insert(0, (stamp, image))
        if fault is CameraFault.TWICE:
            due.insert(0, (stamp, image))
        must = is_owed and self._is_matched(now_s)
        for place, (each, picture) in enumerate(due):
            self._ledger.send(each, now_s, must=must)
            self._station.publish(self._topic, each, picture, damaged=fault is CameraFault.DAMAGED and place == 0)
        return fault

    def _overtaken(self) -> tuple[list[tuple[int, NDArray[np.uint8]]], list[tuple[int, int, NDArray[np.uint8]]]]:
        """Return the held frames that are due now, and those that are not."""
        held = [(ahead - 1, stamp, image) for ahead, stamp, image in self._held]
        return [(stamp, image) for ahead, stamp, image in held if ahead <= 0], [each for each in held if each[0] > 0]

    def _is_matched(self, now_s: float) -> bool:
        """Tell whether the node receives what is sent; a node may not yet receive from a new camera."""
        if self._is_new and self._station.is_seen(self._topic):
            self._matched_s = min(self._matched_s, now_s)
            self._is_new = now_s - self._matched_s <= _DISCOVERED_S
        return not self._is_new
