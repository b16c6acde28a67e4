# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Runs robots, gateways and a fleet on this machine, and kills a node: every frame must have one right result.

The robots run in exact mode and reuse only blocks that are equal in every byte, so that every right result equals that
of dense execution.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.config import Value
from cacheinf_ros.engine import Engine, EngineConfig
from cacheinf_ros.fleet.own_machines import OwnMachines
from cacheinf_ros.fleet.ray_cluster import RayCluster
from cacheinf_ros.graph import load_model
from cacheinf_ros.harness.fleet_demo_report import DemoReport, Phase, RobotReport
from cacheinf_ros.harness.frame_ledger import Fate, FrameLedger
from cacheinf_ros.harness.processes import NodeCommand, NodeGroup, ProcessError
from cacheinf_ros.matching import IDENTICAL
from cacheinf_ros.mode import Mode
from cacheinf_ros.nodes.robot_station import Heard, RobotStation
from cacheinf_ros.pipeline import wait_until
from cacheinf_ros.sources import open_source

_PICTURES = 16
_PATIENCE_S = 10.0
_START_S = 240.0
_BASE_NS = 10**15
_TOLERANCE = 1e-4  # of the largest value of an output: sums may be in another order
_ENGINE: dict[str, Value] = {
    "mode": Mode.EXACT.value, "threads": 1, "same_bits": True, "outputs": "all", "max_output_bytes": 2**30,
}  # fmt: skip
_TOPICS: dict[str, Value] = {"server.share_topic": "/frame_shares", "server.shared_topic": "/frame_shared"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoConfig:
    """The settings of a demonstration.

    Attributes:
        rate: images per second of each robot.
        phase_s: duration of each phase, in seconds.
        deadline_ms: time after which a robot computes a frame alone.
        cores: number of cores that each of the two Ray nodes claims to have.
        planned: least number of frames, of all robots together, while nodes are drained at the end; 0: none is drained.
    """

    robots: int
    gateways: int
    rate: float
    phase_s: float
    model: str
    source: str
    deadline_ms: float
    cores: float
    planned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    pictures: list[NDArray[np.uint8]]
    right: list[dict[str, NDArray[Any]]]
    dense_ms: float

    @classmethod
    def of(cls, config: DemoConfig) -> _Shown:
        frames = itertools.islice(iter(open_source(config.source)), _PICTURES)
        pictures = [np.ascontiguousarray(frame.image) for frame in frames]
        engine = Engine(
            load_model(config.model), EngineConfig(mode=Mode.DENSE, threads=1, same_bits=True), with_server=True
        )
        right, took_ms = [], []
        for picture in pictures:
            began = time.perf_counter()
            outputs = engine.run(picture, None).outputs
            took_ms.append(1e3 * (time.perf_counter() - began))
            right.append({name: output.copy() for name, output in outputs.items()})
        return cls(pictures=pictures, right=right, dense_ms=float(np.median(took_ms)))

    def judge(self, heard: Heard) -> tuple[Fate, bool]:
        """Return what a result is, and whether it is right in every bit."""
        right = self.right[heard.stamp_ns % _PICTURES]  # see the stamps of _publish
        if heard.error:
            return Fate.STATED, False
        if heard.outputs.keys() != right.keys() or any(
            heard.outputs[name].shape != values.shape for name, values in right.items()
        ):
            return Fate.WRONG, False
        is_same = all(heard.outputs[name].tobytes() == values.tobytes() for name, values in right.items())
        is_right = all(_agree(heard.outputs[name], values) for name, values in right.items())
        return (Fate.RIGHT if is_right else Fate.WRONG), is_same


def _agree(output: NDArray[Any], expected: NDArray[Any]) -> bool:
    least = _TOLERANCE * max(1e-6, float(np.abs(expected).max()))
    return np.allclose(output, expected, rtol=_TOLERANCE, atol=least)


def run_demo(
    config: DemoConfig,
    *,
    domain: int,
    folder: Path,
    progress: Callable[[str], None] = lambda line: None,
) -> DemoReport:
    """Run the demonstration.

    Args:
        domain: ROS domain of the nodes.
        folder: receives the nodes' logs.
        progress: takes a line now and then.

    Raises:
        ProcessError: a node does not start, or a robot gets no session.
        ConfigError: Ray is not installed.
    """
    machines = OwnMachines(2, config.cores)
    try:
        progress("a Ray cluster of two nodes is up")
        with NodeGroup(folder, domain=domain) as group, RobotStation(domain) as station:
            cluster = RayCluster(machines.address)
            try:
                demo = _Demo(config, machines, cluster, station)
                demo.start(group, progress)
                demo.run(progress)
                return demo.report()
            finally:
                cluster.close()
    finally:
        machines.close()


class _Demo:
    def __init__(self, config: DemoConfig, machines: OwnMachines, cluster: RayCluster, station: RobotStation) -> None:
        self._config = config
        self._machines = machines
        self._cluster = cluster
        self._station = station
        self._shown = _Shown.of(config)
        self._heard: queue.SimpleQueue[tuple[int, Heard]] = queue.SimpleQueue()
        self._ledgers = [FrameLedger(_PATIENCE_S) for _ in range(config.robots)]
        self._reports = [RobotReport() for _ in range(config.robots)]
        self._sent: dict[tuple[int, int], tuple[float, Phase | None]] = {}
        self._last = [""] * config.robots
        self._latencies: dict[Phase, list[float]] = {phase: [] for phase in Phase}
        self._same = self._frame = 0
        self._gateways: dict[str, int] = {}

    def start(self, group: NodeGroup, progress: Callable[[str], None]) -> None:
        """Start gateways and robots, and publish images until every robot's frames are shared."""
        config = self._config
        nodes = [
            group.start(gateway_command(config, number, self._machines.address)) for number in range(config.gateways)
        ]
        nodes += [group.start(robot_command(config, number)) for number in range(config.robots)]
        for number in range(config.robots):
            self._station.add_robot(_images(number), _results(number), partial(self._hear, number))
        for node in nodes:
            node.wait_ready(_START_S)
        progress(f"{config.gateways} gateways and {config.robots} robots are up")
        if not wait_until(lambda: all(map(self._station.is_seen, map(_images, range(config.robots)))), _START_S):
            raise ProcessError("images do not reach the robots")
        deadline = time.monotonic() + _START_S
        while not all(where == "shared" for where in self._last):
            if time.monotonic() > deadline:
                raise ProcessError(f"robots get no session: {self._last}")
            self._film(1.0, None)
        progress("all robots share their frames")

    def run(self, progress: Callable[[str], None]) -> None:
        """Run all phases."""
        seconds = self._config.phase_s
        self._film(seconds, Phase.STEADY)
        self._gateways = self._by_gateway
        victim = self._machines.names[-1]
        on_it = sum(session.machine == victim for session in self._cluster.status().sessions)
        self._film(0.5, Phase.KILLED)
        progress(f"a node is killed that computes {on_it} sessions")
        self._film(seconds, Phase.KILLED, partial(self._machines.kill, victim))
        if self._config.planned:
            self._drain(progress)
        deadline = time.monotonic() + _PATIENCE_S
        while any(ledger.waiting for ledger in self._ledgers) and time.monotonic() < deadline:
            self._listen(0.1)
        for ledger in self._ledgers:
            ledger.settle(time.monotonic() + 2 * _PATIENCE_S)

    def report(self) -> DemoReport:
        """Return the results of the demonstration."""
        return DemoReport(
            robots=self._reports,
            sent=sum(ledger.sent for ledger in self._ledgers),
            fates=sum((ledger.fates for ledger in self._ledgers), Counter()),
            same_bits=self._same,
            dense_ms=self._shown.dense_ms,
            gateways=self._gateways,
            latencies_ms=self._latencies,
            counts=dict(self._cluster.status().counts),
        )

    def _drain(self, progress: Callable[[str], None]) -> None:
        """Add a node, then drain one node after another until it is empty and enough frames have been sent."""
        self._film(2.0, None, self._machines.add)
        until_frame = self._frame + -(-self._config.planned // self._config.robots)
        for full, other in itertools.cycle(itertools.permutations(self._machines.names)):
            progress("a node is drained")
            self._cluster.drain(other, is_wanted=False)
            self._cluster.drain(full)
            deadline = time.monotonic() + _START_S
            while any(session.machine == full for session in self._cluster.status().sessions):
                if time.monotonic() > deadline:
                    raise ProcessError("a drained node does not become empty")
                self._film(1.0, Phase.DRAINED)
            if self._frame >= until_frame:
                return

    @property
    def _by_gateway(self) -> dict[str, int]:
        return dict(Counter(session.gateway for session in self._cluster.status().sessions))

    def _film(self, seconds: float, phase: Phase | None, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Publish each robot's images at its rate, one robot after another, and receive results meanwhile.

        Args:
            meanwhile: is called in this thread, because Ray starts nodes in the main thread only; the images are
                published in another thread, at least until it returns.
        """
        end = time.monotonic() + seconds
        is_done = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            filming = pool.submit(lambda: self._film_until(lambda: is_done.is_set() and time.monotonic() >= end, phase))
            try:
                meanwhile()
            finally:
                is_done.set()
            filming.result()

    def _film_until(self, is_over: Callable[[], bool], phase: Phase | None) -> None:
        gap = 1 / self._config.rate / self._config.robots
        while not is_over():
            due = time.monotonic()
            for number in range(self._config.robots):
                self._publish(number, phase)
                due += gap
                self._listen(due - time.monotonic())
            self._frame += 1

    def _publish(self, number: int, phase: Phase | None) -> None:
        picture = self._frame % len(self._shown.pictures)
        stamp = _BASE_NS + self._frame * _PICTURES * 10**6 + picture
        now = time.monotonic()
        self._sent[number, stamp] = now, phase
        self._ledgers[number].send(stamp, now, must=True)
        self._station.publish(_images(number), stamp, self._shown.pictures[picture])

    def _hear(self, number: int, heard: Heard) -> None:
        self._heard.put((number, heard))

    def _listen(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                number, heard = self._heard.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return
            self._take(number, heard)

    def _take(self, number: int, heard: Heard) -> None:
        fate, is_same = self._shown.judge(heard)
        self._ledgers[number].answer(heard.stamp_ns, heard.at_s, fate)
        self._same += is_same
        self._last[number] = heard.where
        sent_s, phase = self._sent.pop((number, heard.stamp_ns), (heard.at_s, None))
        if phase is None:
            return
        took_ms, report = 1e3 * (heard.at_s - sent_s), self._reports[number]
        self._latencies[phase].append(took_ms)
        report.slowest_ms[phase] = max(took_ms, report.slowest_ms.get(phase, 0.0))
        if heard.where == "shared":
            report.shared[phase] += 1
            report.late[phase] += took_ms > 1e3 / self._config.rate
        else:
            report.alone[phase] += 1


def gateway_command(config: DemoConfig, number: int, address: str) -> NodeCommand:
    """Return the command that starts a gateway."""
    parameters = {**_ENGINE, **_TOPICS, "threshold": IDENTICAL, "model": config.model, "fleet": address}
    return NodeCommand(
        executable="server", name=f"gateway{number}", parameters={**parameters, "server.max_robots": 2 * config.robots}
    )


def robot_command(config: DemoConfig, number: int) -> NodeCommand:
    """Return the command that starts a robot, which has the server compute everything as long as there is one."""
    return NodeCommand(
        executable="cached_inference",
        name=f"robot{number}",
        namespace=f"/robot{number}",
        parameters={
            **_ENGINE, **_TOPICS, "threshold": IDENTICAL, "image_topic": "camera/image",
            "image_reliability": "reliable", "queue_size": 1000, "model": config.model, "result_topic": "results",
            "server.use": True, "server.policy": "remote", "server.deadline_ms": config.deadline_ms,
        },
    )  # fmt: skip


def _images(number: int) -> str:
    return f"/robot{number}/camera/image"


def _results(number: int) -> str:
    return f"/robot{number}/results"
