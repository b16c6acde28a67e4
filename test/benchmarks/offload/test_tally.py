# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The figures that a benchmark of a link adds up: shares of time, and joules by a meter or by the model."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from benchmarks.offload.metered_play import MeteredPlay, described
from benchmarks.offload.tally import Tally
from cacheinf_ros.energy import NoMeter, PowerModel
from cacheinf_ros.harness.playback import Played
from cacheinf_ros.nodes.recorder import Recorded


class Counting:
    """A meter that counts one joule more with every reading."""

    name = "counting"

    def __init__(self) -> None:
        self.counted = 0.0

    def joules(self) -> float:
        self.counted += 1.0
        return self.counted


class Broken(Counting):
    """A meter that fails from the second reading on."""

    def joules(self) -> float:
        if self.counted:
            raise OSError("a busy bus")
        return super().joules()


def results(*took_ms: float, error: str = "") -> list[Recorded]:
    """Make results that arrive one second apart."""
    return [
        Recorded(
            stamp_ns=i, arrived_ns=i * 10**9, model="", variant="", why="", mode="", where="robot", error=error,
            reuse_ratio=0.5, active_share=0.5, stage_ms={"engine": ms}, boxes=(), serialized=b"",
        )
        for i, ms in enumerate(took_ms)
    ]  # fmt: skip


def played(*took_ms: float) -> Played:
    found = results(*took_ms)
    return Played(
        published=len(found), accepted=len(found), dropped=0, results=found, links={}, class_maps=[], promises={}
    )


def tally(*joules: float | None) -> Tally:
    found = Tally(1)
    for each in joules:
        counts = Counter({"robot_us": 90_000, "transmit_us": 30_000, "receive_us": 15_000})
        found.add(played(50.0, 40.0, 60.0), counts, None, each)
    return found


def test_the_share_of_sending_is_of_all_frames() -> None:
    """Three frames take 150 ms together, in 30 ms of which the robot sent; the first does not count for the latency."""
    figures = tally(None).figures(over_time=False)
    assert figures["transmit_ms"] == pytest.approx(10.0)
    assert figures["transmit_share"] == pytest.approx(0.2)
    assert (figures["latency_ms"]["mean"], figures["latency_ms"]["std"]) == (50.0, 10.0)


def test_joules_by_the_model_are_of_the_frames_that_the_node_counted() -> None:
    """The first of four frames takes longest; the others' joules are of the shares of the time in all four."""
    found = Tally(1)
    counts = Counter({"robot_us": 560_000, "transmit_us": 70_000, "receive_us": 35_000})
    found.add(played(550.0, 50.0, 50.0, 50.0), counts, None)
    figures = found.figures(over_time=False)
    assert figures["latency_ms"]["mean"] == 50.0
    assert figures["energy_j"] == pytest.approx(PowerModel().joules(50.0, 40.0, 5.0, 2.5))


def test_frames_that_failed_have_no_latency_and_are_told() -> None:
    both = [*results(50.0, 40.0, 60.0), *results(0.0, error="no room")]
    failed = Played(published=5, accepted=5, dropped=0, results=both, links={}, class_maps=[], promises={})
    found = Tally(1)
    found.add(failed, Counter(), None)
    figures = found.figures(over_time=False)
    assert (figures["latency_ms"]["mean"], figures["where"]) == (50.0, {"robot": 2})
    assert (figures["errors"], figures["first_error"], figures["unanswered"]) == (1, "no room", 1)
    nothing = Tally(0)
    nothing.add(replace(failed, results=both[3:]), Counter(), None)
    figures = nothing.figures(over_time=False)
    assert figures["latency_ms"]["mean"] is None and figures["first_error"] == "no room"


def test_joules_are_the_meters_where_it_was_read_each_time() -> None:
    figures = tally(2.0, 4.0).figures(over_time=False)
    assert (figures["energy_j"], figures["energy_kind"]) == (3.0, "measured")
    figures = tally(2.0, None).figures(over_time=False)
    assert figures["energy_kind"] == "modelled"
    assert figures["energy_j"] == pytest.approx(PowerModel().joules(50.0, 30.0, 10.0, 5.0))


def test_a_meter_is_read_while_frames_are_answered() -> None:
    """The meter counts a joule a second and frames take a second: each takes one, from the last uncounted frame on."""
    times = iter(range(0, 10**11, 10**9))
    play = MeteredPlay(Counting(), lambda: next(times))
    for _ in range(5):
        play.look()
    assert play.joules_per_frame(results(1.0, 1.0, 1.0, 1.0), 1) == pytest.approx(1.0)
    assert play.joules_per_frame(results(1.0), 1) is None


@pytest.mark.parametrize("meter", [NoMeter("none here"), Broken()])
def test_without_a_reading_nothing_is_measured(meter: NoMeter | Broken) -> None:
    times = iter(range(0, 10**11, 10**9))
    play = MeteredPlay(meter, lambda: next(times))
    for _ in range(3):
        play.look()
    assert play.joules_per_frame(results(1.0, 1.0, 1.0), 1) is None


def test_a_report_says_what_its_joules_are() -> None:
    assert described(NoMeter("none here")) == "modelled, no meter: none here"
    assert "measured by counting" in described(Counting()) and "server" in described(Counting())
