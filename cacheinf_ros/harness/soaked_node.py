# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A node process that is killed, restarted, paused and finds its disk full, and a robot with a camera."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.harness.absences import Absences
from cacheinf_ros.harness.churn import CameraFault, Column, ProcessFault
from cacheinf_ros.harness.frame_ledger import FrameLedger
from cacheinf_ros.harness.processes import NodeCommand, NodeProcess, ProcessError
from cacheinf_ros.harness.soak_report import SoakConfig
from cacheinf_ros.harness.soaked_camera import SoakedCamera
from cacheinf_ros.pipeline import wait_until

if TYPE_CHECKING:
    from cacheinf_ros.nodes.robot_station import Heard, RobotStation

_SETTLE_S = 1.0  # endpoints that are known here may discover ours later
_SENT_AGAIN_S = 3.5  # what a paused process missed is sent again after a heartbeat, every 3 s in users' own set-ups


class _State(Enum):
    STARTING = "starting"
    UP = "up"
    PAUSED = "paused"
    ENDING = "ending"
    DOWN = "down"


StartProcess = Callable[[str, NodeCommand, bool], NodeProcess]
"""A function that starts a process under this full name; True: the process finds its disk full."""


class SoakedNode:
    """One node, run in one process after another.

    Attributes:
        full_name: its name in diagnostics.
        deaths: processes that ended without being asked to, or with an exit code other than 0.
    """

    def __init__(self, full_name: str, command: NodeCommand, start: StartProcess) -> None:
        self.full_name = full_name
        self.deaths: list[str] = []
        self._command = command
        self._start = start
        self._finds_disk_full = False
        self._processes: list[NodeProcess] = []
        self._state = _State.DOWN
        self._seen_up: float | None = None

    @property
    def is_up(self) -> bool:
        """Whether the node takes frames."""
        return self._state is _State.UP

    @property
    def is_paused(self) -> bool:
        """Whether the node is paused."""
        return self._state is _State.PAUSED

    @property
    def _is_owed(self) -> bool:
        """Whether the node must answer what is sent to it now: a paused one goes on later."""
        return self._state in (_State.UP, _State.PAUSED)

    def start(self) -> None:
        """Start a process, without waiting for it."""
        self._processes.append(self._start(self.full_name, self._command, self._finds_disk_full))
        self._state, self._seen_up = _State.STARTING, None

    def wait_up(self, deadline_s: float) -> None:
        """Wait until the node is up; raises :class:`ProcessError` where that takes too long."""

        def is_up() -> bool:
            self.look(time.monotonic())
            return self.is_up or bool(self.deaths)

        if not wait_until(is_up, max(0.0, deadline_s - time.monotonic())) or self.deaths:
            raise ProcessError(f"{self.full_name} did not start: {self._processes[-1].output.strip()}")

    def look(self, now_s: float) -> None:
        """Notice that the process is up, has ended as asked, or died; a dead one is started again."""
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
        """Kill, pause or end the process; :meth:`restore` is to be called later, and may find the disk full."""
        process = self._processes[-1]
        self._finds_disk_full = fault is ProcessFault.FULL_DISK
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
        """Resume a paused process, or start an ended one again; one that has not ended yet is stopped.

        A process that has to be killed for this counts among the deaths. One that died meanwhile, and so was started
        again, is left alone.
        """
        process = self._processes[-1]
        if self.is_paused:
            os.kill(process.pid, signal.SIGCONT)
            self._state = _State.UP
            self._came_up(time.monotonic())
            return
        if self._state is _State.ENDING:
            code = process.stop()
            if code:
                self.deaths.append(f"{self.full_name}: asked to end, exit code {code}")
            self._state = _State.DOWN
        if self._state is _State.DOWN:
            self.start()

    def tracebacks(self) -> list[str]:
        """Return the names of its logs that contain a traceback."""
        return [process.log.name for process in self._processes if "Traceback" in process.output]

    def _is_reached(self, process: NodeProcess) -> bool:
        return process.is_ready

    def _came_up(self, now_s: float) -> None:
        """React to the node taking frames from now on; does nothing here."""

    def _went(self) -> None:
        """React to the node giving no more answers; does nothing here."""


class SoakedRobot(SoakedNode):
    """A robot: the node that answers, its camera, and what became of the camera's frames.

    Attributes:
        ledger: the ledger of its frames.
        starts_s: seconds from each start after a fault until images reach it and its results are received.
    """

    def __init__(
        self,
        number: int,
        command: NodeCommand,
        start: StartProcess,
        station: RobotStation,
        config: SoakConfig,
        hear: Callable[[tuple[SoakedRobot, Heard]], None],
    ) -> None:
        """Set up camera and ledger; ``hear`` takes the robot and each of its results, in the station's thread."""
        super().__init__(f"robot{number}/robot{number}", command, start)
        self.ledger = FrameLedger(config.patience_s, lambda: self._processes[-1].log.name)
        self.starts_s: list[float] = []
        self._station = station
        self._images, self._results = f"/robot{number}/camera/image", f"/robot{number}/results"
        self._camera = SoakedCamera(self._images, station, self.ledger, config, config.seed * 1000 + number)
        self._faults_ended: list[tuple[str, float]] = []
        self._stops, self._pauses = Absences(), Absences()  # of its process, of its camera
        self._stopped_s, self._resumed_s = 0.0, -math.inf
        self._fault = ""
        self._started_s = 0.0
        self._known: set[bytes] = set()
        station.add_robot(self._images, self._results, lambda heard: hear((self, heard)))

    def start(self) -> None:
        """Start a process; endpoints of topics that are known by now belong to earlier processes."""
        self._started_s = time.monotonic()
        self._known = set().union(*self._ends())
        super().start()

    def befall(self, fault: ProcessFault) -> None:
        """Note when the fault happened, and do as :meth:`SoakedNode.befall`."""
        self._fault = f"inference: {fault.value}"
        self._stopped_s = time.monotonic()
        super().befall(fault)

    def film(self, pictures: Sequence[NDArray[np.uint8]], *, misbehaves: bool) -> CameraFault | None:
        """Publish the next image; returns the fault that struck it, or the camera, or None.

        Args:
            misbehaves: whether faults may happen.
        """
        fault = self._camera.film(time.monotonic(), pictures, is_owed=self._is_owed, misbehaves=misbehaves)
        if fault is CameraFault.RESTARTED:
            self._excuse_what_was_not_received(time.monotonic())
        if fault is CameraFault.PAUSED:
            self._pauses.add(time.monotonic(), self._camera.paused_until_s)
        if fault is not None:
            back_s = max(time.monotonic(), self._camera.paused_until_s)
            self.recovers_from(f"{Column.CAMERA.value}: {fault.value}", back_s)
        return fault

    def _excuse_what_was_not_received(self, now_s: float) -> None:
        """Excuse what is lost with a restarted camera: its node was paused, and may not have received it yet."""
        if self.is_paused:
            self.ledger.excuse(now_s)
        elif now_s - self._resumed_s < _SENT_AGAIN_S:
            self.ledger.excuse(now_s, sent_by_s=self._resumed_s)

    def recovers_from(self, fault: str, at_s: float) -> None:
        """Note a fault of something that it works with: the time to its next right result is reported, if it is up."""
        if self.is_up:
            self._faults_ended.append((fault, at_s))

    def recoveries(self) -> list[tuple[str, float]]:
        """Return faults, and the seconds from each one's end to the next right result, without pauses."""
        found = [(fault, self._recovery_s(since)) for fault, since in self._faults_ended]
        return [(fault, took_s) for fault, took_s in found if took_s is not None]

    def _recovery_s(self, since_s: float) -> float | None:
        found = self.ledger.recovered(since_s)
        if found is None:
            return None
        sent_s, answered_s = found
        waited_s = sent_s - since_s - (self._stops | self._pauses).within(since_s, sent_s)
        return waited_s + answered_s - sent_s - self._stops.within(sent_s, answered_s)

    def _is_reached(self, process: NodeProcess) -> bool:
        return process.is_ready and all(end - self._known for end in self._ends())

    def _ends(self) -> tuple[set[bytes], set[bytes]]:
        return self._station.ends(self._command.name, self._images, self._results)

    def _came_up(self, now_s: float) -> None:
        self.ledger.postpone(now_s)
        if self._fault:
            self.recovers_from(self._fault, now_s)
            if self._fault == f"inference: {ProcessFault.PAUSED.value}":
                self._resumed_s = now_s
                self._stops.add(self._stopped_s, now_s)
            else:
                self.starts_s.append(now_s - self._started_s)

    def _went(self) -> None:
        self.ledger.excuse(time.monotonic())
        # faults that it had not recovered from are dropped: it starts anew, and that is reported as a start
        self._faults_ended = [each for each in self._faults_ended if self.ledger.recovered(each[1]) is not None]
