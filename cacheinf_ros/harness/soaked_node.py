# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A node process that is killed, restarted and paused, and a robot with a camera that misbehaves."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.harness.churn import CameraFault, CameraFaults, ProcessFault
from cacheinf_ros.harness.frame_ledger import FrameLedger
from cacheinf_ros.harness.processes import NodeCommand, NodeGroup, NodeProcess, ProcessError
from cacheinf_ros.harness.soak_report import SoakConfig
from cacheinf_ros.pipeline.polling import wait_until

if TYPE_CHECKING:
    from cacheinf_ros.nodes.robot_station import Heard, RobotStation

_BASE_NS = 10**15
_PICTURES = 1000  # the stamp's last digits say which picture it was
_BACK_NS = 10 * 10**9
_NS_PER_S = 10**9
_SETTLE_S = 1.0  # who is matched may learn of us later than we of it


class _State(Enum):
    STARTING = "starting"
    UP = "up"
    PAUSED = "paused"
    ENDING = "ending"
    DOWN = "down"


class SoakedNode:
    """One node, in as many processes as it takes.

    Attributes:
        full_name: in diagnostics.
        deaths: what ended without being asked to, or with a code other than 0.
    """

    def __init__(
        self, full_name: str, command: NodeCommand, group: NodeGroup, watch: Callable[[str, int], None]
    ) -> None:
        """``watch``: takes name and process id of what starts."""
        self.full_name = full_name
        self.deaths: list[str] = []
        self._command = command
        self._group = group
        self._watch = watch
        self._processes: list[NodeProcess] = []
        self._state = _State.DOWN
        self._seen_up: float | None = None

    @property
    def is_up(self) -> bool:
        """Whether it takes frames."""
        return self._state is _State.UP

    @property
    def is_owed(self) -> bool:
        """Whether it must answer what is sent to it now: a paused one goes on later."""
        return self._state in (_State.UP, _State.PAUSED)

    def start(self) -> None:
        """Start a process, without waiting for it."""
        process = self._group.start(self._command)
        self._processes.append(process)
        self._watch(self.full_name, process.pid)
        self._state, self._seen_up = _State.STARTING, None

    def wait_up(self, deadline_s: float) -> None:
        """Wait until it is up; :class:`ProcessError` where that takes too long."""

        def is_up() -> bool:
            self.look(time.monotonic())
            return self.is_up or bool(self.deaths)

        if not wait_until(is_up, max(0.0, deadline_s - time.monotonic())) or self.deaths:
            raise ProcessError(f"{self.full_name} did not start: {self._processes[-1].output.strip()}")

    def look(self, now_s: float) -> None:
        """Notice that it is up, that it has ended, or that it died."""
        if self._state is _State.DOWN:
            return
        process = self._processes[-1]
        if process.exit_code is not None:
            if self._state is not _State.ENDING or process.exit_code != 0:
                last = process.output.strip().splitlines()[-1:] or [""]
                self.deaths.append(f"{self.full_name}: {self._state.value}, exit code {process.exit_code}: {last[0]}")
            if self._state is _State.ENDING:
                self._state = _State.DOWN
            else:
                self.start()
        elif self._state is _State.STARTING and self._is_reached(process):
            if self._seen_up is None:
                self._seen_up = now_s
            elif now_s - self._seen_up > _SETTLE_S:
                self._state = _State.UP
                self._came_up(now_s)

    def befall(self, fault: ProcessFault) -> None:
        """Kill, pause or end it; :meth:`restore` is to be called later."""
        process = self._processes[-1]
        if fault is ProcessFault.PAUSED:
            os.kill(process.pid, signal.SIGSTOP)
            self._state = _State.PAUSED
            return
        if fault is ProcessFault.KILLED:
            process.kill()
            self._state = _State.DOWN
        else:
            process.interrupt()
            self._state = _State.ENDING
        self._went()

    def restore(self) -> None:
        """Wake it, or start it again; where it still ends, kill it: that it took so long is one of its deaths."""
        process = self._processes[-1]
        if self._state is _State.PAUSED:
            os.kill(process.pid, signal.SIGCONT)
            self._state = _State.UP
            self._came_up(time.monotonic())
            return
        if self._state is _State.ENDING:
            code = process.stop()
            if code:
                self.deaths.append(f"{self.full_name}: asked to end, exit code {code}")
        self.start()

    def tracebacks(self) -> list[str]:
        """Names of its logs that have a traceback in them."""
        return [process.log.name for process in self._processes if "Traceback" in process.output]

    def _is_reached(self, process: NodeProcess) -> bool:
        return process.is_ready

    def _came_up(self, now_s: float) -> None:
        """It takes frames from now on."""

    def _went(self) -> None:
        """It answers nothing any more."""


def picture_of(stamp_ns: int) -> int:
    """Return the number of the picture that a robot's camera sent with a stamp."""
    return stamp_ns % _PICTURES


class SoakedRobot(SoakedNode):
    """A robot: its node, its camera, and what became of the camera's frames.

    Attributes:
        ledger: of its frames.
    """

    def __init__(
        self,
        number: int,
        command: NodeCommand,
        group: NodeGroup,
        watch: Callable[[str, int], None],
        station: RobotStation,
        config: SoakConfig,
    ) -> None:
        super().__init__(f"robot{number}/robot{number}", command, group, watch)
        self.ledger = FrameLedger(config.patience_s)
        self._station = station
        self._images, self._results = f"/robot{number}/camera/image", f"/robot{number}/results"
        self._faults = CameraFaults(config.seed * 1000 + number, config.camera_share)
        self._period_ns = round(_NS_PER_S / config.rate / _PICTURES) * _PICTURES
        self._sent = 0
        self._back_ns = 0
        self._later: tuple[int, NDArray[np.uint8]] | None = None
        self._faults_ended: list[float] = []

    def hear(self, hear: Callable[[Heard], None]) -> None:
        """Have its results heard; in the station's thread."""
        self._station.add_robot(self._images, self._results, hear)

    def film(self, now_s: float, pictures: Sequence[NDArray[np.uint8]]) -> CameraFault | None:
        """Send the next picture, or what a fault makes of it; returns the fault."""
        fault = self._faults.draw()
        if fault is CameraFault.CLOCK_BACK:
            self._back_ns += _BACK_NS + self._period_ns // 2 // _PICTURES * _PICTURES
        number = self._sent % len(pictures)
        stamp = _BASE_NS + self._sent * self._period_ns - self._back_ns + number
        self._sent += 1
        image = pictures[number]
        later, self._later = self._later, None
        if fault is CameraFault.REORDERED and later is None:
            self._later = stamp, image
            return fault
        if fault is not CameraFault.LOST:
            self._publish(stamp, image, now_s, damaged=fault is CameraFault.DAMAGED)
        if fault is CameraFault.TWICE:
            self._publish(stamp, image, now_s)
        if later is not None:
            self._publish(*later, now_s)
        return fault

    def recovers_from(self, at_s: float) -> None:
        """Something befell what it works with: when it gives its next right result is to be reported."""
        self._faults_ended.append(at_s)

    def recoveries(self) -> list[float]:
        """Seconds from the end of each fault to the next right result."""
        found = [self.ledger.recovery_s(since) for since in self._faults_ended]
        return [seconds for seconds in found if seconds is not None]

    def _publish(self, stamp: int, image: NDArray[np.uint8], now_s: float, *, damaged: bool = False) -> None:
        self.ledger.send(stamp, now_s, must=self.is_owed)
        self._station.publish(self._images, stamp, image, damaged=damaged)

    def _is_reached(self, process: NodeProcess) -> bool:
        return process.is_ready and self._station.is_connected(self._images, self._results)

    def _came_up(self, now_s: float) -> None:
        self.ledger.postpone(now_s)
        self._faults_ended.append(now_s)

    def _went(self) -> None:
        self.ledger.excuse()
