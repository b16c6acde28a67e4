# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What other robots that ask the same models have lately seen (MCDNN, sections 5.2.1 and 6).

The paper's specialiser runs in the cloud and counts the classes of all inputs. Here every robot tells the others what
its models have answered, and each decides for itself: no server is needed, and a robot that sees something else is
not given a specialist that is of no use to it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

_MOST_REPORTS = 64  # of all robots and models; anybody on the network can invent more
_KEPT_S = 1.0  # how long a sum is used: robots report once a second, and models may answer every few milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassReport:
    """How often one robot's model has lately answered each class.

    Attributes:
        robot: the robot's node, another name at each start.
        model: SHA-256 of the original's weights: classes mean the same for those who have the same.
        counts: the number of answers, by class.
    """

    robot: str
    model: str
    counts: Mapping[int, int]


class OtherRobots:
    """Keeps the latest report of each other robot about each model; safe to use from several threads."""

    def __init__(self, valid_s: float) -> None:
        """Begin with no reports; each counts for ``valid_s`` seconds."""
        self._valid_s = valid_s
        self._lock = threading.Lock()
        self._reports: dict[tuple[str, str], tuple[float, ClassReport]] = {}  # the oldest first
        self._sums: dict[str, tuple[float, Counter[int]]] = {}  # by model; when they were added up

    def take(self, report: ClassReport, now_s: float) -> None:
        """Keep a report in place of the robot's last one about this model; where there are many, the oldest goes."""
        with self._lock:
            self._reports.pop((report.robot, report.model), None)
            self._reports[report.robot, report.model] = now_s, report
            while len(self._reports) > _MOST_REPORTS:
                del self._reports[next(iter(self._reports))]

    def counts(self, model: str, now_s: float) -> Counter[int]:
        """Return how often the other robots' same model has answered each class, as of the last second at most."""
        at_s, total = self._sums.get(model, (float("-inf"), Counter()))
        if now_s - at_s >= _KEPT_S:
            total = Counter()
            for report in self._valid(now_s):
                if report.model == model:
                    total.update(report.counts)
            self._sums[model] = now_s, total
        return total

    def robots(self, now_s: float) -> int:
        """Return the number of other robots that have lately reported."""
        return len({report.robot for report in self._valid(now_s)})

    def _valid(self, now_s: float) -> list[ClassReport]:
        with self._lock:
            return [report for at_s, report in self._reports.values() if now_s - at_s < self._valid_s]
