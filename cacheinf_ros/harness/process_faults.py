# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Injects planned faults into the processes of a soak test and the link between them, and ends each in its time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from cacheinf_ros.harness.agenda import Agenda
from cacheinf_ros.harness.churn import Column, Fault
from cacheinf_ros.harness.soaked_node import SoakedNode, SoakedRobot
from cacheinf_ros.nodes.packet_relay import Relay


class ProcessFaults:
    """Injects the faults of a plan, one after another.

    Attributes:
        injected: how often each fault befell each column.
    """

    def __init__(
        self,
        agenda: Agenda,
        relay: Relay,
        server: SoakedNode,
        robots: Sequence[SoakedRobot],
        matchers: Mapping[int, SoakedNode],
        *,
        is_over: Callable[[float], bool],
        is_spared: Callable[[], bool],
    ) -> None:
        """Begin without a plan.

        Args:
            agenda: calls what is scheduled.
            relay: the link, which faults cut.
            matchers: by the number of their robot.
            is_over: tells whether no fault may happen any more at a time.
            is_spared: tells whether no fault may happen now.
        """
        self.injected: Counter[tuple[Column, str]] = Counter()
        self._agenda = agenda
        self._relay = relay
        self._server = server
        self._robots = robots
        self._matchers = matchers
        self._is_over = is_over
        self._is_spared = is_spared

    def follow(self, plan: Iterator[Fault], began_s: float) -> None:
        """Schedule the next fault of a plan only: once there were enough, nothing waits for the rest of it.

        Args:
            began_s: the time at which the plan begins.
        """
        fault = next(plan, None)
        if fault is None or self._is_over(began_s + fault.at_s):
            return

        def befall() -> None:
            self._befall(fault)
            self.follow(plan, began_s)

        self._agenda.at(began_s + fault.at_s, befall)

    def _befall(self, fault: Fault) -> None:
        now = time.monotonic()
        if self._is_over(now) or self._is_spared():
            return
        if fault.column is Column.LINK:
            self._relay.faults.is_cut = True
            self._agenda.at(now + fault.lasts_s, self._mend_link)
        else:
            node = self._befallen(fault)
            if not node.is_up:
                return
            node.befall(fault.kind)
            self._agenda.at(time.monotonic() + fault.lasts_s, node.restore)
        self.injected[fault.column, fault.kind.value] += 1
        if fault.column is Column.MATCHER:
            self._robots[fault.robot].recovers_from(f"matcher: {fault.kind.value}", time.monotonic())
        elif fault.column in (Column.SERVER, Column.LINK):  # every robot is to go on
            for robot in self._robots:
                robot.recovers_from(f"{fault.column.value}: {fault.kind.value}", time.monotonic())

    def _befallen(self, fault: Fault) -> SoakedNode:
        if fault.column is Column.SERVER:
            return self._server
        return self._matchers[fault.robot] if fault.column is Column.MATCHER else self._robots[fault.robot]

    def _mend_link(self) -> None:
        self._relay.faults.is_cut = False
