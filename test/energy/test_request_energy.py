# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of the battery energy of single requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.energy.meters import NoMeter
from cacheinf_ros.energy.power_model import PowerModel, Spent
from cacheinf_ros.energy.request_energy import RequestEnergy
from cacheinf_ros.nodes import energy as energy_watch
from cacheinf_ros.pipeline.health import Health, WorkState

MODEL = PowerModel(idle_w=2.0, compute_w=10.0, transmit_w=4.0, receive_w=1.0)


class Log:
    """A node that can do nothing but log."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def get_logger(self) -> Log:
        return self

    def info(self, line: str) -> None:
        self.lines.append(line)


class Meter:
    """A meter with given readings; None means that it cannot be read."""

    name = "test meter"

    def __init__(self, *readings: float | None) -> None:
        self._readings: Iterator[float | None] = iter(readings)

    def joules(self) -> float:
        reading = next(self._readings)
        if reading is None:
            raise OSError("busy")
        return reading


def energy(monkeypatch: pytest.MonkeyPatch, meter: Any) -> tuple[RequestEnergy, Log, Health]:
    monkeypatch.setattr(energy_watch, "find_meter", lambda: meter)
    log, health = Log(), Health()
    node: Any = log
    found = energy_watch.announced_meter(node, "energy of requests")
    return RequestEnergy(MODEL, found, health.note), log, health


def kind(health: Health) -> str:
    return health.status(WorkState(), latency_budget_ms=1.0, stuck_after_s=1.0, now_s=0.0).values["energy_kind"]


def test_without_a_meter_the_model_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 ms at 2 W, of which 50 ms computing at 10 W and 25 ms sending at 4 W, are 0.2 + 0.5 + 0.1 J."""
    account, log, health = energy(monkeypatch, NoMeter("there is none"))
    took = account.end(account.begin(), 100.0, Spent(compute_ms=50.0, transmit_ms=25.0))
    assert took == pytest.approx(0.8) and kind(health) == "modelled"
    assert log.lines == ["energy of requests: modelled, no meter: there is none"]


def test_a_meter_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    account, log, health = energy(monkeypatch, Meter(10.0, 12.5))
    assert account.end(account.begin(), 100.0, Spent()) == 2.5
    assert kind(health) == "measured" and "test meter" in log.lines[0]


@pytest.mark.parametrize("readings", [(None, 3.0), (3.0, None)])
def test_a_meter_that_cannot_be_read_is_stood_in_for(
    monkeypatch: pytest.MonkeyPatch, readings: tuple[float | None, float | None]
) -> None:
    account, _, health = energy(monkeypatch, Meter(*readings))
    assert account.end(account.begin(), 100.0, Spent()) == pytest.approx(0.2)
    assert kind(health) == "modelled"
