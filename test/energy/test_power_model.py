# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of frames' energy, by the power model and by a meter."""

from __future__ import annotations

import pytest

from cacheinf_ros.energy.power_model import EnergyAccount, EnergyKind, FrameEnergy, PowerModel, Spent

MODEL = PowerModel(idle_w=4.0, compute_w=10.0, transmit_w=2.0, receive_w=1.0)


class Scripted:
    """A meter with scripted readings; None means that it cannot be read."""

    name = "scripted"

    def __init__(self, *readings: float | None) -> None:
        self._readings = iter(readings)

    def joules(self) -> float:
        reading = next(self._readings)
        if reading is None:
            raise OSError("busy")
        return reading


def modelled(joules: float) -> FrameEnergy:
    return FrameEnergy(joules=pytest.approx(joules), kind=EnergyKind.MODELLED)


def measured(joules: float) -> FrameEnergy:
    return FrameEnergy(joules=pytest.approx(joules), kind=EnergyKind.MEASURED)


def test_the_model_adds_what_each_activity_takes() -> None:
    assert MODEL.joules(100.0, 50.0, 20.0, 10.0) == pytest.approx((4 * 100 + 10 * 50 + 2 * 20 + 10) / 1e3)


def test_without_a_meter_frames_are_modelled_from_end_to_end() -> None:
    account = EnergyAccount(MODEL)
    assert account.settle(0.0) is None and account.latest is None
    account.add(0.1, Spent(compute_ms=50.0))
    assert account.settle(1.0) == modelled(14 * 0.05)  # the first: as long as was computed
    account.add(1.1, Spent(compute_ms=50.0, transmit_ms=20.0, receive_ms=10.0))
    account.add(1.3, Spent())
    both = 4 * 1.2 + 10 * 0.05 + 2 * 0.02 + 0.01
    assert account.settle(2.0) == modelled(both / 2)
    assert account.settle(3.0) is None and account.latest == modelled(both / 2)


def test_work_between_frames_is_charged_to_them() -> None:
    account = EnergyAccount(MODEL)
    account.add(0.1, Spent())
    account.settle(0.1)
    account.add_work(50.0)
    account.add(0.2, Spent(compute_ms=20.0))
    account.add(0.3, Spent(compute_ms=20.0))
    assert account.settle(0.3) == modelled(4 * 0.1 + 10 * 0.02 + 10 * 0.05 / 2)


def test_a_meter_is_divided_by_frames() -> None:
    account = EnergyAccount(MODEL, Scripted(100.0, 106.0, 109.0, 115.0))
    assert account.settle(0.0) is None
    for end_s in (0.2, 0.4, 0.6):
        account.add(end_s, Spent(compute_ms=50.0))
    assert account.settle(1.0) == measured(2.0)
    assert account.settle(2.0) is None  # a slow camera: its frame has all of it
    account.add(2.5, Spent(compute_ms=50.0))
    assert account.settle(3.0) == measured(9.0)


def test_a_pause_is_no_frames() -> None:
    account = EnergyAccount(MODEL, Scripted(0.0, 5.0, 60.0, 65.0))
    account.settle(0.0)
    account.add(0.5, Spent(compute_ms=50.0))
    assert account.settle(1.0) == measured(5.0)
    assert account.settle(12.0) is None
    account.add(12.5, Spent(compute_ms=50.0))
    assert account.settle(13.0) == measured(5.0)


def test_a_frame_that_began_before_the_meter_was_read_is_modelled() -> None:
    account = EnergyAccount(MODEL, Scripted(0.0, 10.0, 20.0))
    account.settle(0.0)
    account.settle(19.0)
    account.add(19.5, Spent(compute_ms=19_000.0))
    assert account.settle(20.0) == modelled(14 * 19.0)


def test_a_meter_that_cannot_be_read_is_replaced_by_the_model_until_it_can() -> None:
    account = EnergyAccount(MODEL, Scripted(0.0, None, 20.0, 24.0))
    account.settle(0.0)
    kinds = []
    for second in (1.0, 2.0, 3.0):
        account.add(second - 0.5, Spent(compute_ms=50.0))
        energy = account.settle(second)
        assert energy is not None
        kinds.append(energy.kind)
    assert kinds == [EnergyKind.MODELLED, EnergyKind.MODELLED, EnergyKind.MEASURED]
