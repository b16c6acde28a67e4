# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Runs robots that share a server for hours while processes, cameras and visitors misbehave, and checks every result.

The right answer to each frame follows from its picture alone: the nodes run in exact mode, and only blocks that are
equal in every byte are reused, so that every right result is that of dense execution.
"""

from __future__ import annotations

import contextlib
import queue
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from cacheinf_ros.harness.agenda import Agenda
from cacheinf_ros.harness.churn import Column, Visit, plan_process_faults
from cacheinf_ros.harness.frame_ledger import Fate
from cacheinf_ros.harness.full_disk import full_disk
from cacheinf_ros.harness.policy_changes import PolicyChanges
from cacheinf_ros.harness.process_faults import ProcessFaults
from cacheinf_ros.harness.processes import NodeCommand, NodeGroup, NodeProcess
from cacheinf_ros.harness.resources import ResourceWatch
from cacheinf_ros.harness.server_rests import ServerReport, ServerRests
from cacheinf_ros.harness.soak_report import SoakConfig, SoakReport, Unanswered
from cacheinf_ros.harness.soak_setting import (
    ALL_POLICIES,
    ANSWER_TOPIC,
    SHARE_TOPIC,
    Shown,
    has_matcher,
    matcher_command,
    policy_of,
    robot_command,
    server_command,
)
from cacheinf_ros.harness.soaked_camera import picture_of
from cacheinf_ros.harness.soaked_node import SoakedNode, SoakedRobot, StartProcess
from cacheinf_ros.harness.visitors import Visitors
from cacheinf_ros.nodes.packet_relay import Relay
from cacheinf_ros.nodes.robot_station import Heard, RobotStation
from cacheinf_ros.offload.protocol.link_faults import KINDS, Faults

_TICK_S = 0.01
_SAMPLE_S = 5.0
_GREET_S = 0.5
_START_S = 120.0
_LAST_WORDS_S = 5.0
_LAST_FRAMES_S = 10.0  # cameras go on for so long after the last fault: who has not recovered misses frames
_TOLD_S = 60.0


def soak(
    config: SoakConfig,
    *,
    domain: int,
    folder: Path,
    progress: Callable[[str], None] = lambda line: None,
    make_group: Callable[..., NodeGroup] = NodeGroup,
) -> SoakReport:
    """Run the soak test.

    Args:
        domain: ROS domain of the nodes.
        folder: receives the processes' logs.
        progress: takes a line now and then.
        make_group: makes the group that starts the nodes.

    Raises:
        ProcessError: a node does not start.
        LinkError: the relay that carries packets between the nodes has ended.
    """
    relay = Relay(domain)
    relay.faults = Faults(config.seed, config.rates.link_share, KINDS)
    try:
        with (
            full_disk(folder / "full_disk") as disk,
            make_group(folder, domain=domain) as group,
            RobotStation(domain) as station,
        ):
            resources = ResourceWatch()

            def start(name: str, command: NodeCommand, finds_disk_full: bool) -> NodeProcess:
                more = disk if finds_disk_full else {}
                process = group.start(replace(command, environment={**command.environment, **more}))
                resources.watch(name, process.pid)
                return process

            run = _Soak(config, start, station, relay, resources)
            run.start()
            progress(f"{config.robots} robots and a server are up")
            run.go_on(progress, folder / "samples.csv")
            return run.report()
    finally:
        relay.close()


class _Soak:
    def __init__(
        self,
        config: SoakConfig,
        start: StartProcess,
        station: RobotStation,
        relay: Relay,
        resources: ResourceWatch,
    ) -> None:
        self._config = config
        self._station = station
        self._relay = relay
        self._resources = resources
        self._random = random.Random(config.seed)
        self._shown = shown = Shown.of(config)
        self._heard: queue.SimpleQueue[tuple[SoakedRobot, Heard]] = queue.SimpleQueue()
        self._of_cameras: Counter[tuple[Column, str]] = Counter()
        self._where: Counter[str] = Counter()
        self._diagnostics: dict[str, int] = {}
        self._sessions = 0
        self._agenda = Agenda()
        self._end = 0.0
        self._server = SoakedNode("server", server_command(config), start)
        numbers = range(config.robots)
        self._robots = [
            SoakedRobot(number, robot_command(config, number), start, station, config, self._heard.put)
            for number in numbers
        ]
        self._matchers = {
            number: SoakedNode(f"robot{number}/matcher{number}", matcher_command(number), start)
            for number in filter(has_matcher, numbers)
        }
        self._policy_changes = PolicyChanges(
            station, [self._robots[number] for number in self._befallible], config.seed
        )
        policies = [policy_of(config, number) for number in numbers]
        self._rests = ServerRests(station, resources, self._server, self._robots, policies)
        self._process_faults = ProcessFaults(
            self._agenda, relay, self._server, self._robots, self._matchers,
            is_over=lambda at_s: at_s >= self._end, is_spared=lambda: self._rests.is_on,
        )  # fmt: skip
        self._visitors = Visitors(station, shown.identity, shown.space, SHARE_TOPIC, ANSWER_TOPIC, config.seed)

    def start(self) -> None:
        """Start all processes; cameras begin when all of them are up."""
        for node in self._nodes:
            node.start()
        deadline = time.monotonic() + _START_S
        for node in self._nodes:
            node.wait_up(deadline)

    def go_on(self, progress: Callable[[str], None], samples: Path) -> None:
        """Send frames and faults until the time is over or there were enough, then frames, and await their results.

        Args:
            samples: file that regularly receives what each process held.
        """
        began = said = time.monotonic()
        self._end = began + self._config.duration_s
        self._plan(began)
        while self._agenda or any(robot.ledger.waiting for robot in self._robots):
            now = time.monotonic()
            if now > self._end + _LAST_FRAMES_S + self._config.patience_s + _LAST_WORDS_S:
                break
            if 0 < self._config.rates.faults <= min(self._of_columns.values()):
                self._end = min(self._end, now)
            self._tick(now)
            if now - said > _TOLD_S:
                said = now
                progress(f"{now - began:.0f} s: {self._fates}")
                self._resources.save(samples)
        for robot in self._robots:
            robot.ledger.settle(time.monotonic() + self._config.patience_s)
        self._resources.save(samples)

    def report(self) -> SoakReport:
        """Return the results so far."""
        return SoakReport(
            sent=sum(robot.ledger.sent for robot in self._robots),
            fates=self._counted,
            unanswered=Unanswered(
                missing=sum((robot.ledger.missing for robot in self._robots), Counter()),
                silent=sum((robot.ledger.silent for robot in self._robots), Counter()),
            ),
            injected=self._all_injected,
            visits=self._visitors.went,
            tuned=self._policy_changes.answers,
            where=self._where,
            recovery_s=[each for robot in self._robots for each in robot.recoveries()],
            starts_s=[seconds for robot in self._robots for seconds in robot.starts_s],
            growth=self._resources.growth(1 / 4),
            diagnostics=self._diagnostics,
            server=ServerReport(sessions=self._sessions, rests=self._rests.found, missed_rests=self._rests.missed),
            deaths=[death for node in self._nodes for death in node.deaths],
            tracebacks=[name for node in self._nodes for name in node.tracebacks()],
        )

    @property
    def _nodes(self) -> list[SoakedNode]:
        return [self._server, *self._robots, *self._matchers.values()]

    @property
    def _all_injected(self) -> Counter[tuple[Column, str]]:
        of_link = Counter({(Column.LINK, kind): count for kind, count in self._relay.faults.counts.items()})
        refused = [kind for kind in Visit if kind.is_refused]
        of_server = Counter({(Column.SERVER, kind.value): self._visitors.came[kind] for kind in refused})
        return self._of_cameras + self._process_faults.injected + of_link + of_server

    @property
    def _of_columns(self) -> Counter[Column]:
        """The number of faults so far in each column that can have any."""
        columns = self._config.rates.columns(self._befallible, self._matchers)
        counts = Counter(dict.fromkeys(columns, 0))
        for (column, _), count in self._all_injected.items():
            counts[column] += count
        return counts

    @property
    def _befallible(self) -> range:
        """The numbers of the robots whose processes may have faults."""
        return range(1, self._config.robots)

    def _plan(self, began: float) -> None:
        config, rates = self._config, self._config.rates
        plan = plan_process_faults(
            config.seed, duration_s=config.duration_s, every_s=rates.fault_every_s, robots=self._befallible,
            matchers=self._matchers, server_share=rates.server_share, cut_share=rates.cut_share,
        )  # fmt: skip
        self._process_faults.follow(iter(plan), began)
        for robot in self._robots:
            self._agenda.at(began + self._random.random() / config.rate, lambda robot=robot: self._film(robot))  # type: ignore[misc]
        self._agenda.at(began, self._sample)
        self._agenda.at(began + config.visit_every_s, self._visit)
        self._agenda.at(began, self._greet)
        if config.tune_every_s and self._befallible and config.policy == ALL_POLICIES:
            self._agenda.at(began + config.tune_every_s, self._tune)
        if config.rest_every_s:
            self._agenda.at(began + config.rest_every_s, self._rest)

    @property
    def _counted(self) -> Counter[Fate]:
        return sum((robot.ledger.fates for robot in self._robots), Counter())

    @property
    def _fates(self) -> str:
        return ", ".join(f"{count} {fate.value}" for fate, count in self._counted.items() if count)

    def _tick(self, now: float) -> None:
        self._agenda.act(now)
        for node in self._nodes:
            node.look(now)
        with contextlib.suppress(queue.Empty):  # raised when there is nothing more to judge now
            self._judge(*self._heard.get(timeout=_TICK_S))
            while True:
                self._judge(*self._heard.get_nowait())

    def _judge(self, robot: SoakedRobot, heard: Heard) -> None:
        if heard.error:
            fate = Fate.STATED
        else:
            is_right = self._shown.is_right(picture_of(heard.stamp_ns), heard.where, heard.outputs)
            fate = Fate.RIGHT if is_right else Fate.WRONG
            self._where[heard.where] += 1
        robot.ledger.answer(heard.stamp_ns, heard.at_s, fate)

    def _again(self, after_s: float, act: Callable[[], None]) -> None:
        """Schedule something once more, unless the time is over by then."""
        at_s = time.monotonic() + after_s
        if at_s < self._end:
            self._agenda.at(at_s, act)

    def _film(self, robot: SoakedRobot) -> None:
        now = time.monotonic()
        fault = robot.film(self._shown.pictures, misbehaves=now < self._end)
        if fault is not None:
            self._of_cameras[Column.CAMERA, fault.value] += 1
        next_s = now + 1 / self._config.rate
        if next_s < self._end + _LAST_FRAMES_S:
            self._agenda.at(next_s, lambda: self._film(robot))

    def _visit(self) -> None:
        if not self._rests.is_on:
            self._visitors.come(self._random.choice(list(Visit)), time.monotonic())
        self._again(self._random.expovariate(1 / self._config.visit_every_s), self._visit)

    def _tune(self) -> None:
        if not self._rests.is_on:
            self._policy_changes.change()
        self._again(self._random.expovariate(1 / self._config.tune_every_s), self._tune)

    def _rest(self) -> None:
        self._rests.begin(time.monotonic())
        self._stay_away()

    def _stay_away(self) -> None:
        goes_on = self._rests.poll(time.monotonic())
        after_s, act = (_GREET_S, self._stay_away) if goes_on else (self._config.rest_every_s, self._rest)
        self._again(after_s, act)

    def _greet(self) -> None:
        self._visitors.poll(time.monotonic())
        self._again(_GREET_S, self._greet)

    def _sample(self) -> None:
        now = time.monotonic()
        self._relay.check()
        self._resources.sample(now)
        for robot in self._robots:
            robot.ledger.settle(now)
        for node in self._nodes:
            said = self._station.said(node.full_name)
            self._diagnostics[node.full_name] = max(len(said), self._diagnostics.get(node.full_name, 0))
        self._sessions = max(self._sessions, int(self._station.said(self._server.full_name).get("sessions", 0)))
        self._again(_SAMPLE_S, self._sample)
