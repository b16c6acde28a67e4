# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The settings of a soak test, and its results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from cacheinf_ros.config import Config, setting
from cacheinf_ros.harness.churn import Column, Visit
from cacheinf_ros.harness.frame_ledger import Fate
from cacheinf_ros.harness.resources import Growth
from cacheinf_ros.harness.server_rests import ServerReport


class FaultRates(Config):
    """The frequency of each kind of fault."""

    fault_every_s: float = setting(5.0, "mean time between faults of processes, s", low=0.1)
    server_share: float = setting(0.2, "of these, what befalls the server", low=0, high=1)
    cut_share: float = setting(0.1, "of these, what cuts the link", low=0, high=1)
    camera_share: float = setting(0.1, "of the images, those something befalls", low=0, high=1)
    link_share: float = setting(0.01, "of the packets, those something befalls", low=0, high=1)
    faults: int = setting(0, "end after so many in each column; 0: do not", low=0)

    def columns(self, robots: Collection[int], matchers: Collection[int]) -> list[Column]:
        """Return the columns that can have faults: always that of the server, because it must refuse some visitors.

        Args:
            robots: numbers of the robots whose processes may have faults; where there are none, the server has them.
            matchers: numbers of the robots whose matcher is a process of its own.
        """
        of_robots = bool(robots) and self.server_share + self.cut_share < 1
        can_befall = {
            Column.CAMERA: self.camera_share > 0,
            Column.MATCHER: of_robots and not set(robots).isdisjoint(matchers),
            Column.INFERENCE: of_robots,
            Column.SERVER: True,
            Column.LINK: self.link_share > 0 or (bool(robots) and self.cut_share > 0 and self.server_share < 1),
        }
        return [column for column, can in can_befall.items() if can]


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakConfig:
    """The settings of a soak test.

    Attributes:
        duration_s: time with faults; starting and ending come on top.
        robots: number of robots, each a node with a camera of its own; the process of the first has no faults.
        slots: number of robots that the server has room for.
        rate: images per second of each camera.
        model, source: what the robots run, and what their cameras show.
        policy: server.policy of the robots; "all": the robots get all policies in turn.
        seed: seed of everything random.
        rates: rates of faults.
        visit_every_s: mean time between robots that only greet the server.
        tune_every_s: mean time between changes of the server.policy of a working robot, where policy is "all"; 0: there
            are none.
        rest_every_s: time between moments in which all robots leave the server, so that what it holds can be compared;
            0: there are none.
        patience_s: how long a frame may wait for its result.
    """

    duration_s: float
    robots: int
    slots: int
    rate: float
    model: str
    source: str
    policy: str
    seed: int
    rates: FaultRates
    visit_every_s: float
    tune_every_s: float
    rest_every_s: float
    patience_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """The numbers of frames without an answer by process, named by its log.

    Attributes:
        missing: frames that had to be answered.
        silent: excused frames that had waited for more than 5 s when they were excused.
    """

    missing: Counter[str] = field(default_factory=Counter)
    silent: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakReport:
    """The results of a soak test.

    Attributes:
        sent: number of frames sent.
        fates: how often each fate occurred; further answers to the same frame come on top of the number of frames.
        unanswered: frames without an answer.
        injected: number of faults by column and kind.
        visits: how the visits of robots went that only greeted, such as how many had a session, by kind.
        tuned: how often a robot's policy was changed, by what the robot answered.
        where: how many frames were computed where.
        recovery_s: faults, such as "server: killed", and the seconds until the next right result of each robot that is
            concerned. They count from the fault; for a fault of the robot's own process, from when that is up again.
            Time in which its process is stopped, or its camera sends nothing, does not count.
        starts_s: seconds from the start of a robot's process until images reach it and its results are received.
        growth: growth of the processes that lived for at least a quarter of the time that one of them did.
        diagnostics: the largest number of values that each node reported.
        server: results of the server's processes.
        deaths: processes that ended without being asked to, or with an exit code other than 0, and their last lines.
        tracebacks: names of the logs that contain a traceback.
    """

    sent: int
    fates: Counter[Fate]
    unanswered: Unanswered
    injected: Counter[tuple[Column, str]]
    visits: Counter[str]
    tuned: Counter[str]
    where: Counter[str]
    recovery_s: list[tuple[str, float]]
    starts_s: list[float]
    growth: list[Growth]
    diagnostics: dict[str, int]
    server: ServerReport
    deaths: list[str]
    tracebacks: list[str]

    @property
    def is_clean(self) -> bool:
        """Whether nothing happened that must never happen."""
        is_fault = any(self.fates[fate] for fate in Fate if fate.is_fault)
        was_admitted = any(self.visits[visit.admitted] for visit in Visit if visit.is_refused)
        return not (self.deaths or self.tracebacks or is_fault or was_admitted)
