# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Robots that share a server for hours while processes, cameras and visitors misbehave; every result is checked.

What is expected of each frame follows from its picture alone: the nodes run in mode exact, and only blocks that are
equal in every byte are reused, so that every right result is that of dense execution.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import queue
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine import Engine, EngineConfig, Mode
from cacheinf_ros.graph import load_model
from cacheinf_ros.harness.churn import SERVER, Fault, Visit, plan_process_faults
from cacheinf_ros.harness.frame_ledger import Fate
from cacheinf_ros.harness.processes import NodeCommand, NodeGroup
from cacheinf_ros.harness.resources import ResourceWatch
from cacheinf_ros.harness.soak_report import SoakConfig, SoakReport
from cacheinf_ros.harness.soaked_node import SoakedNode, SoakedRobot, picture_of
from cacheinf_ros.harness.visitors import Visitors
from cacheinf_ros.matching.matching_config import IDENTICAL
from cacheinf_ros.nodes.packet_relay import SERVER as RELAYED
from cacheinf_ros.nodes.packet_relay import Relay
from cacheinf_ros.nodes.robot_station import Heard, RobotStation
from cacheinf_ros.offload import Identity
from cacheinf_ros.offload.protocol.link_faults import KINDS, Faults
from cacheinf_ros.sources import open_source

SHARE_TOPIC, ANSWER_TOPIC = "/frame_shares", "/frame_shared"
_PICTURES = 16
_LOSSLESS = 1000  # frames that wait in a node
_TICK_S = 0.01
_SAMPLE_S = 5.0
_GREET_S = 0.5
_START_S = 120.0
_DEADLINE_MS = (
    2000.0  # as many processes share a few cores: a server that is slow is not to be taken for one that is gone
)
_LAST_WORDS_S = 5.0
_TOLERANCE = 1e-4  # of the largest value of an output: sums in another order
_SECOND_NS = 1_000_000_000


def soak(
    config: SoakConfig, *, domain: int, folder: Path, progress: Callable[[str], None] = lambda line: None
) -> SoakReport:
    """Run it.

    Args:
        domain: ROS domain of the nodes.
        folder: receives the processes' logs.
        progress: takes a line now and then.

    Raises:
        ProcessError: a node does not start.
    """
    relay = Relay(domain)
    relay.faults = Faults(config.seed, config.link_share, KINDS)
    try:
        with NodeGroup(folder, domain=domain) as group, RobotStation(domain) as station:
            run = _Soak(config, group, station, folder / "samples.csv")
            run.start()
            progress(f"{config.robots} robots and a server are up")
            run.go_on(progress)
            return run.report(relay.faults.counts)
    finally:
        relay.close()


@dataclass(order=True)
class _Timer:
    at_s: float
    number: int
    act: Callable[[], None] = field(compare=False)


class _Soak:
    def __init__(self, config: SoakConfig, group: NodeGroup, station: RobotStation, samples: Path) -> None:
        self._config = config
        self._samples = samples
        self._station = station
        self._random = random.Random(config.seed)
        self._pictures, self._right, model, shared = _expected(config)
        self._heard: queue.SimpleQueue[tuple[SoakedRobot, Heard]] = queue.SimpleQueue()
        self._resources = ResourceWatch()
        self._injected: Counter[str] = Counter()
        self._where: Counter[str] = Counter()
        self._diagnostics: dict[str, int] = {}
        self._sessions = 0
        self._timers: list[_Timer] = []
        self._numbers = itertools.count()
        watch = self._resources.watch
        self._server = SoakedNode("server", _server(config), group, watch)
        self._robots = [
            SoakedRobot(number, _robot(config, number), group, watch, station, config)
            for number in range(config.robots)
        ]
        self._visitors = Visitors(station, model, shared, SHARE_TOPIC, ANSWER_TOPIC, config.seed)

    def start(self) -> None:
        """Start all processes; cameras begin when all are there."""
        for robot in self._robots:
            robot.hear(lambda heard, robot=robot: self._heard.put((robot, heard)))  # type: ignore[misc]
        for node in self._nodes:
            node.start()
        deadline = time.monotonic() + _START_S
        for node in self._nodes:
            node.wait_up(deadline)

    def go_on(self, progress: Callable[[str], None]) -> None:
        """Send frames and faults until the time is over, then wait for the last results."""
        config, began = self._config, time.monotonic()
        end = began + config.duration_s
        plan = plan_process_faults(
            config.seed, duration_s=config.duration_s, every_s=config.fault_every_s,
            robots=range(1, config.robots), server_share=config.server_share,
        )  # fmt: skip
        for fault in plan:
            self._at(began + fault.at_s, lambda fault=fault: self._befall(fault))  # type: ignore[misc]
        for robot in self._robots:
            self._at(began + self._random.random() / config.rate, lambda robot=robot: self._film(robot, end))  # type: ignore[misc]
        self._at(began, lambda: self._sample(end))
        self._at(began + config.visit_every_s, lambda: self._visit(end))
        self._at(began, lambda: self._greet(end))
        said = began
        while self._timers or any(robot.ledger.waiting for robot in self._robots):
            now = time.monotonic()
            if now > end + config.patience_s + _LAST_WORDS_S:
                break
            self._tick(now)
            if now - said > 60:
                said = now
                progress(f"{now - began:.0f} s: {self._fates}")
                self._resources.save(self._samples)
        for robot in self._robots:
            robot.ledger.settle(time.monotonic() + config.patience_s)
        self._resources.save(self._samples)

    def report(self, of_link: Counter[str]) -> SoakReport:
        """What came of it so far; ``of_link``: how often each fault befell a packet."""
        recovery = [seconds for robot in self._robots for seconds in robot.recoveries()]
        return SoakReport(
            fates=self._counted,
            injected=self._injected + Counter({f"packet {kind}": count for kind, count in of_link.items()}),
            visits=self._visitors.went,
            where=self._where,
            recovery_s=recovery,
            growth=self._resources.growth(self._config.duration_s / 4),
            diagnostics=self._diagnostics,
            sessions=self._sessions,
            deaths=[death for node in self._nodes for death in node.deaths],
            tracebacks=[name for node in self._nodes for name in node.tracebacks()],
        )

    @property
    def _nodes(self) -> list[SoakedNode]:
        return [self._server, *self._robots]

    @property
    def _counted(self) -> Counter[Fate]:
        return sum((robot.ledger.fates for robot in self._robots), Counter())

    @property
    def _fates(self) -> str:
        return ", ".join(f"{count} {fate.value}" for fate, count in self._counted.items() if count)

    def _at(self, at_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._timers, _Timer(at_s, next(self._numbers), act))

    def _tick(self, now: float) -> None:
        while self._timers and self._timers[0].at_s <= now:
            heapq.heappop(self._timers).act()
        for node in self._nodes:
            node.look(now)
        with contextlib.suppress(queue.Empty):  # there is nothing more to judge now
            self._judge(*self._heard.get(timeout=_TICK_S))
            while True:
                self._judge(*self._heard.get_nowait())

    def _judge(self, robot: SoakedRobot, heard: Heard) -> None:
        expected = self._right[picture_of(heard.stamp_ns)]
        if heard.error:
            fate = Fate.STATED
        else:
            fate = Fate.RIGHT if _agree(heard.outputs, expected) else Fate.WRONG
            self._where[heard.where] += 1
        robot.ledger.answer(heard.stamp_ns, heard.at_s, fate)

    def _film(self, robot: SoakedRobot, end: float) -> None:
        now = time.monotonic()
        fault = robot.film(now, self._pictures)
        if fault is not None:
            self._injected[f"frame {fault.value}"] += 1
        if now + 1 / self._config.rate < end:
            self._at(now + 1 / self._config.rate, lambda: self._film(robot, end))

    def _befall(self, fault: Fault) -> None:
        node = self._server if fault.target == SERVER else self._robots[fault.target]
        if not node.is_up:
            return
        self._injected[f"{'server' if fault.target == SERVER else 'robot'} {fault.kind.value}"] += 1
        node.befall(fault.kind)
        if fault.target == SERVER:  # every robot is to go on
            for robot in filter(lambda robot: robot.is_up, self._robots):
                robot.recovers_from(time.monotonic())
        self._at(time.monotonic() + fault.lasts_s, node.restore)

    def _visit(self, end: float) -> None:
        now = time.monotonic()
        self._visitors.come(self._random.choice(list(Visit)), now)
        at = now + self._random.expovariate(1 / self._config.visit_every_s)
        if at < end:
            self._at(at, lambda: self._visit(end))

    def _greet(self, end: float) -> None:
        now = time.monotonic()
        self._visitors.poll(now)
        if now + _GREET_S < end:
            self._at(now + _GREET_S, lambda: self._greet(end))

    def _sample(self, end: float) -> None:
        now = time.monotonic()
        self._resources.sample(now)
        for robot in self._robots:
            robot.ledger.settle(now)
        for node in self._nodes:
            said = self._station.said(node.full_name)
            self._diagnostics[node.full_name] = max(len(said), self._diagnostics.get(node.full_name, 0))
        self._sessions = max(self._sessions, int(self._station.said(self._server.full_name).get("sessions", 0)))
        if now + _SAMPLE_S < end:
            self._at(now + _SAMPLE_S, lambda: self._sample(end))


def _expected(
    config: SoakConfig,
) -> tuple[list[NDArray[np.uint8]], list[dict[str, NDArray[Any]]], Identity, Any]:
    """The pictures, what dense execution makes of each, and what a visitor of the server must know."""
    frames = itertools.islice(iter(open_source(config.source)), _PICTURES)
    pictures = [np.ascontiguousarray(frame.image) for frame in frames]
    model = load_model(config.model)
    engine = Engine(model, EngineConfig(mode=Mode.DENSE, threads=1), with_server=True)
    right = [
        {name: output.copy() for name, output in engine.run(picture, None).outputs.items()} for picture in pictures
    ]
    assert engine.shared is not None
    return pictures, right, Identity.of(model), engine.shared.space


def _agree(outputs: dict[str, NDArray[Any]], expected: dict[str, NDArray[Any]]) -> bool:
    if outputs.keys() != expected.keys():
        return False
    return all(
        outputs[name].shape == right.shape
        and np.allclose(outputs[name], right, rtol=_TOLERANCE, atol=_TOLERANCE * max(1e-6, float(np.abs(right).max())))
        for name, right in expected.items()
    )


def _robot(config: SoakConfig, number: int) -> NodeCommand:
    name = f"robot{number}"
    return NodeCommand(
        executable="cached_inference",
        name=name,
        namespace=f"/{name}",
        parameters={
            "model": config.model, "mode": Mode.EXACT.value, "threshold": IDENTICAL, "outputs": "all", "threads": 1,
            "image_topic": "camera/image", "result_topic": "results", "image_reliability": "reliable",
            "queue_size": _LOSSLESS, "max_output_bytes": 2**30, "server.use": True, "server.policy": config.policy,
            "server.share_topic": SHARE_TOPIC, "server.shared_topic": ANSWER_TOPIC, "server.deadline_ms": _DEADLINE_MS,
        },
    )  # fmt: skip


def _server(config: SoakConfig) -> NodeCommand:
    return NodeCommand(
        executable="server",
        parameters={
            "model": config.model, "threads": 1, "server.max_robots": config.slots, **RELAYED,
        },
    )  # fmt: skip
