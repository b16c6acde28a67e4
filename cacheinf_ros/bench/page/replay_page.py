# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The page of ``cacheinf replay``: what the nodes did with a recording, beside what a user could do instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np

from cacheinf_ros.bench.learning import frames_to_learn
from cacheinf_ros.bench.loss import DENSE, NOTHING_FOUND
from cacheinf_ros.bench.page.page import Page, Section
from cacheinf_ros.bench.page.stream_page import run_sections, settings_section, ways_section
from cacheinf_ros.bench.stream_run import StreamRun
from cacheinf_ros.energy import EnergyKind, PowerModel
from cacheinf_ros.engine.decisions import FEWEST_DECISIONS
from cacheinf_ros.mode import Mode

_ALIKE = 0.05  # relative difference of times that nobody notices

_NOTE = (
    "The dense engines computed the same frames afterwards, each by itself and without ROS beside it; what skipping "
    "frames would do is worked out from their answers."
)


_BEHIND = "The model counts what answers wait for; the work by which bounded mode judges them afterwards is not in it."


class PlayedCounts(Protocol):
    """The number of frames that were played, and of those without an answer."""

    @property
    def published(self) -> int: ...  # noqa: D102
    @property
    def unanswered(self) -> int: ...  # noqa: D102


def replay_page(run: StreamRun, name: str, played: PlayedCounts, settings: Mapping[str, str]) -> Page:
    """Lay out a replay as a page; every figure is about the same frames, those after a promise was learnt.

    Args:
        run: what was measured; the replay is among the ways, as ``name``.
        played: how many frames were played and answered.
        settings: settings of the nodes, by name.
    """
    report = run.report
    asked = next((trace.asked for trace in run.traces[name] if trace.asked is not None), None)
    run = replace(run, learning=frames_to_learn(len(run.stills), promises=asked is not None))
    without = f", of which the first {run.learning} are in no figure" if run.learning else ""
    return Page(
        title=f"{report['model']} on {settings['source']}",
        subtitle=f"{report['frames']} frames at {report['fps']:.4g} Hz through the real nodes{without}; "
        f"mode {settings['mode']}, input {report['size']}, {report['threads']} threads",
        verdict=_verdict(run, name, played, asked, caches=settings["mode"] != Mode.DENSE.value),
        sections=[
            *run_sections(run, name),
            settings_section(settings),
            ways_section(run, name, _NOTE),
            _energy_section(run, name),
        ],
    )


def _verdict(run: StreamRun, name: str, played: PlayedCounts, asked: float | None, *, caches: bool) -> list[str]:
    without = f" after the first {run.learning} frames" if run.learning else ""
    loss = run.loss(name)
    whole, moving = max(loss.whole, 0.0), max(loss.moving, 0.0)
    right = (
        f"The answers{without} are right {whole:.3f} less often than dense ones ({moving:.3f} where things move)."
        if loss.promise > 0.0005
        else f"The answers{without} are right as often as dense ones."
    )
    speed = _speed(run, name, caches=caches) if asked is None else _speed_when_learnt(run, name)
    found = [*speed, right]
    if run.losses.score(DENSE, run.learning).total < FEWEST_DECISIONS:
        found.append(NOTHING_FOUND)
    elif asked is not None and run.learning:
        kept = "kept" if loss.within(asked) else "broken"
        found.append(f"At most {asked:g} was promised: {kept}.")
    if held := run.held_share(name):
        found.append(f"For {held:.0%} of the frames{without} the last answer still stood, and nothing was computed.")
    missing = played.published - run.report["frames"]
    if missing:
        found.append(f"{missing} of {played.published} frames have no answer to compare; {played.unanswered} got none.")
    return found


def _speed_when_learnt(run: StreamRun, name: str) -> list[str]:
    """Describe the speed of bounded mode without its first frames, which weigh much in a short recording only."""
    learns = "Bounded mode computes its first frames completely, to learn what may be held"
    if not run.learning:
        return [
            f"With {len(run.stills)} frames this recording is too short to see what the cache saves.",
            f"{learns}. A frame took {run.mean_ms(name):.1f} ms, densely {run.mean_ms(DENSE):.1f}.",
        ]
    every = replace(run, learning=0)
    return [
        *_speed(run, name),
        f"{learns}; the first {run.learning} of these {len(run.stills)} are not in that. With them a frame takes "
        f"{every.mean_ms(name):.1f} ms, densely {every.mean_ms(DENSE):.1f}.",
    ]


def _speed(run: StreamRun, name: str, *, caches: bool = True) -> list[str]:
    """Compare the time of a frame with that of dense execution; ``caches``: whether the replay used a cache at all."""
    ours_ms, dense_ms = run.mean_ms(name), run.mean_ms(DENSE)
    engine = f"({run.report['best_dense_fp32']}, {dense_ms:.1f} ms)"
    remark = ": the cache does not pay here" if caches else ""
    if ours_ms < (1 - _ALIKE) * dense_ms:
        speed = f"{dense_ms / ours_ms:.1f} times faster than the fastest dense engine {engine}"
    elif ours_ms > (1 + _ALIKE) * dense_ms:
        speed = f"slower than the fastest dense engine {engine}{remark}"
    else:
        speed = f"as long as on the fastest dense engine {engine}{remark}"
    return [f"A frame takes {ours_ms:.1f} ms, {speed}."]


def _energy_section(run: StreamRun, name: str) -> Section:
    measured = [trace.joules for trace in run.traces[name][run.learning :] if trace.joules is not None]
    period_ms = 1e3 / run.report["fps"]
    rows = [
        (way, f"{PowerModel().joules(max(period_ms, mean_ms), mean_ms, 0.0, 0.0):.3f}")
        for way, mean_ms in ((way, run.mean_ms(way)) for way in run.losses.decisions)
    ]
    if measured:
        rows.append((f"{name}, {EnergyKind.MEASURED.value}", f"{float(np.mean(measured)):.3f}"))
    return Section(
        title="Energy",
        paragraphs=[
            "Joules per frame of the recording, none of which is dropped, by a model of a small robot's computer (5 W "
            "at rest, 10 W more while it computes)" + ("." if measured else "; this machine has no meter."),
            *([_BEHIND] if any(trace.asked is not None for trace in run.traces[name]) else []),
        ],
        heads=("", "J per frame"),
        rows=rows,
    )
