# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a frame costs the robot's battery: measured by a meter where there is one, else by a power model.

The model is that of the papers: the power while idle, plus what computing, sending and receiving add to it.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from enum import Enum

from cacheinf_ros.config import Config, parameter, unlisted
from cacheinf_ros.energy.meters import EnergyMeter, reading

_PAUSE_S = 10.0  # without a frame; the energy of a longer pause belongs to no frame


class PowerModel(Config):
    """The powers in watts; the defaults are about those of a Jetson Xavier NX with a wireless card."""

    group = "energy"

    idle_w: float = parameter(5.0, "power model: the robot's computer at rest, W", low=0.0, high=10_000.0)
    compute_w: float = parameter(10.0, "power model: what computing adds, W", low=0.0, high=10_000.0)
    transmit_w: float = unlisted(1.5, "power model: what sending adds, W", low=0.0, high=10_000.0)
    receive_w: float = unlisted(1.0, "power model: what receiving adds, W", low=0.0, high=10_000.0)

    def joules(self, frame_ms: float, compute_ms: float, transmit_ms: float, receive_ms: float) -> float:
        """Return the joules of a frame: idle power for all of it, and what each activity adds while it lasts."""
        added = self.compute_w * compute_ms + self.transmit_w * transmit_ms + self.receive_w * receive_ms
        return (self.idle_w * frame_ms + added) / 1e3


class EnergyKind(Enum):
    """Where a number of joules comes from."""

    MEASURED = "measured"
    MODELLED = "modelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameEnergy:
    """The joules of a frame, including the wait for the next one."""

    joules: float
    kind: EnergyKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The time in which the robot computed, sent and received for a frame."""

    compute_ms: float = 0.0
    transmit_ms: float = 0.0
    receive_ms: float = 0.0

    @property
    def all_ms(self) -> float:
        """The sum of all times, as if they followed one another."""
        return self.compute_ms + self.transmit_ms + self.receive_ms


class EnergyAccount:
    """Divides the energy drawn between two readings by the number of frames that have ended in between.

    A frame lasts from the end of the one before to its own, in the model as by the meter, so that no energy is lost or
    counted twice; the first one after a pause has only the time that was spent on it. May be used from several threads.

    Attributes:
        latest: what :meth:`settle` last found; None before there were frames.
    """

    def __init__(self, model: PowerModel, meter: EnergyMeter | None = None) -> None:
        self._model = model
        self._meter = meter
        self.latest: FrameEnergy | None = None
        self._lock = threading.Lock()
        self._ended_s = self._read_s = -math.inf
        self._reading: float | None = None
        self._frames = 0
        self._modelled_j = 0.0

    def add(self, now_s: float, spent: Spent) -> None:
        """Take note of a frame that has ended at ``now_s``, in seconds of any clock."""
        with self._lock:
            since_s = now_s - self._ended_s
            frame_ms = 1e3 * since_s
            if since_s > _PAUSE_S:
                frame_ms = spent.all_ms
                if now_s - frame_ms / 1e3 < self._read_s:
                    self._reading = None  # it began before the meter was read
            self._frames += 1
            self._modelled_j += self._model.joules(frame_ms, spent.compute_ms, spent.transmit_ms, spent.receive_ms)
            self._ended_s = now_s

    def add_work(self, compute_ms: float) -> None:
        """Take note of work between frames, which the frames are charged for."""
        with self._lock:
            self._modelled_j += self._model.joules(0.0, compute_ms, 0.0, 0.0)

    def settle(self, now_s: float) -> FrameEnergy | None:
        """Read the meter, and return what each of the frames since the last time has cost; None: there were none.

        Call this about once a second, not at the end of frames: a meter of watts would always see the machine at work.
        """
        read_j = reading(self._meter)
        with self._lock:
            if not self._frames:
                if now_s - self._ended_s > _PAUSE_S:
                    self._begin(now_s, read_j)
                return None
            self.latest = self._per_frame(read_j)
            self._begin(now_s, read_j)
            return self.latest

    def _per_frame(self, read_j: float | None) -> FrameEnergy:
        if read_j is None or self._reading is None:
            return FrameEnergy(joules=self._modelled_j / self._frames, kind=EnergyKind.MODELLED)
        return FrameEnergy(joules=(read_j - self._reading) / self._frames, kind=EnergyKind.MEASURED)

    def _begin(self, now_s: float, read_j: float | None) -> None:
        self._read_s, self._reading = now_s, read_j
        self._frames, self._modelled_j = 0, 0.0
