# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a soak test is to do, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from cacheinf_ros.config import Config, setting
from cacheinf_ros.harness.churn import Column, Visit
from cacheinf_ros.harness.frame_ledger import Fate
from cacheinf_ros.harness.resources import Growth
from cacheinf_ros.harness.server_rests import ServerReport


class FaultRates(Config):
    """How often what goes wrong."""

    fault_every_s: float = setting(5.0, "mean time between faults of processes, s", low=0.1)
    server_share: float = setting(0.2, "of these, what befalls the server", low=0, high=1)
    cut_share: float = setting(0.1, "of these, what cuts the link", low=0, high=1)
    camera_share: float = setting(0.1, "of the images, those something befalls", low=0, high=1)
    link_share: float = setting(0.01, "of the packets, those something befalls", low=0, high=1)
    faults: int = setting(0, "end after so many in each column; 0: do not", low=0)

    def columns(self, robots: Collection[int], matchers: Collection[int]) -> list[Column]:
        """Whom anything can befall: the server always, as guests come that it must refuse.

        Args:
            robots: the numbers of those whose processes something may befall; where there are none, the server has it.
            matchers: the numbers of those whose matcher is a process of its own.
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
    """What to do.

    Attributes:
        duration_s: with faults; starting and ending come on top.
        robots: how many, each a node with a camera of its own; nothing befalls the process of the first.
        slots: robots that the server has room for.
        rate: images per second of each camera.
        model, source: what the robots run, and see.
        policy: server.policy of the robots; "all": they take turns.
        seed: of all that is random.
        rates: of faults.
        visit_every_s: mean time between robots that only greet the server.
        tune_every_s: mean time between changes of server.policy of a robot that works, where policy is "all"; 0: nobody
            changes them.
        rest_every_s: time between moments in which all robots leave the server, so that what it holds can be compared;
            0: they do not.
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
class SoakReport:
    """What came of it.

    Attributes:
        sent: how many frames were.
        fates: of these; answers that are another one, or one too many, come on top.
        missing: how many of them were by process, as its log is called.
        injected: how often each kind of fault befell whom.
        visits: how those went that only greeted: how many had a session, by kind.
        tuned: how often a robot's policy was changed, by what it answered.
        where: where frames were computed.
        recovery_s: faults as "server: killed", and seconds to the next right result of each robot that one concerns:
            from the fault; of what befalls its own process from when that is up again. Seconds in which its process is
            stopped, or its camera sends nothing, do not count.
        starts_s: how long robots' processes took from their start until images reach them and results are heard.
        growth: of the processes that lived for at least a quarter of the time.
        diagnostics: how many values each node reported, at most.
        server: what became of the server.
        deaths: what ended without being asked to, or with a code other than 0, and its last line.
        tracebacks: names of the logs that have one.
    """

    sent: int
    fates: Counter[Fate]
    missing: Counter[str]
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
