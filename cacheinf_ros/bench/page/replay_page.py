# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The page of ``cacheinf replay``: what the nodes did with a recording, beside what a user could do instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from cacheinf_ros.bench.loss import DENSE
from cacheinf_ros.bench.page.page import Page, Section
from cacheinf_ros.bench.page.stream_page import run_sections, settings_section, ways_section
from cacheinf_ros.bench.stream_run import StreamRun
from cacheinf_ros.energy import EnergyKind, PowerModel

_LEARNING = 32  # frames at the start in which bounded mode learns, or prepares its dense engines
_ALIKE = 0.05  # relative difference of times that nobody notices

_NOTE = (
    "The dense engines computed the same frames afterwards, each by itself and without ROS beside it; what skipping "
    "frames would do is worked out from their answers."
)


class PlayedCounts(Protocol):
    """The number of frames that were played, and of those without an answer."""

    @property
    def published(self) -> int: ...  # noqa: D102
    @property
    def unanswered(self) -> int: ...  # noqa: D102


def replay_page(run: StreamRun, name: str, played: PlayedCounts, settings: Mapping[str, str]) -> Page:
    """Lay out a replay as a page.

    Args:
        run: what was measured; the replay is among the ways, as ``name``.
        played: how many frames were played and answered.
        settings: settings of the nodes, by name.
    """
    report = run.report
    return Page(
        title=f"{report['model']} on {settings['source']}",
        subtitle=f"{report['frames']} frames at {report['fps']:.4g} Hz through the real nodes, "
        f"mode {settings['mode']}, input {report['size']}, {report['threads']} threads",
        verdict=_verdict(run, name, played),
        sections=[
            *run_sections(run, name),
            settings_section(settings),
            ways_section(run, name, _NOTE),
            _energy_section(run, name),
        ],
    )


def _verdict(run: StreamRun, name: str, played: PlayedCounts) -> list[str]:
    asked = next((trace.asked for trace in run.traces[name] if trace.asked is not None), None)
    # the promise is about the frames after it was learnt
    first = 0 if asked is None or _is_short(run) else _LEARNING
    without = f" after the first {first} frames" if first else ""
    loss = run.loss(name, first)
    whole, moving = max(loss.whole, 0.0), max(loss.moving, 0.0)
    right = (
        f"The answers{without} are right {whole:.3f} less often than dense ones ({moving:.3f} where things move)."
        if loss.promise > 0.0005
        else f"The answers{without} are right as often as dense ones."
    )
    found = [*(_speed(run, name) if asked is None else _speed_when_learnt(run, name)), right]
    if asked is not None and not _is_short(run):
        kept = "kept" if loss.within(asked) else "broken"
        found.append(f"At most {asked:g} was promised: {kept}.")
    if held := run.held_share(name, first):
        found.append(f"For {held:.0%} of the frames{without} the last answer still stood, and nothing was computed.")
    missing = played.published - run.report["frames"]
    if missing:
        found.append(f"{missing} of {played.published} frames have no answer to compare; {played.unanswered} got none.")
    return found


def _is_short(run: StreamRun) -> bool:
    """Tell whether hardly more frames than bounded mode learns from were played, so that nothing can be concluded."""
    return len(run.stills) < 2 * _LEARNING


def _speed_when_learnt(run: StreamRun, name: str) -> list[str]:
    """Describe the speed of bounded mode without its first frames, which weigh much in a short recording only."""
    learns = "Bounded mode computes its first frames completely, to learn what may be held"
    if _is_short(run):
        return [
            f"With {len(run.stills)} frames this recording is too short to see what the cache saves.",
            f"{learns}. A frame took {run.mean_ms(name):.1f} ms, densely {run.mean_ms(DENSE):.1f}.",
        ]
    return [
        *_speed(run, name, _LEARNING),
        f"{learns}; the first {_LEARNING} of these {len(run.stills)} are not in that. With them a frame takes "
        f"{run.mean_ms(name):.1f} ms, densely {run.mean_ms(DENSE):.1f}.",
    ]


def _speed(run: StreamRun, name: str, first: int = 0) -> list[str]:
    """Compare the time of the frames from ``first`` on with that of dense execution."""
    ours_ms, dense_ms = (float(np.mean([took or 0.0 for took in run.took_ms[way][first:]])) for way in (name, DENSE))
    engine = f"({run.report['best_dense_fp32']}, {dense_ms:.1f} ms)"
    if ours_ms < (1 - _ALIKE) * dense_ms:
        speed = f"{dense_ms / ours_ms:.1f} times faster than the fastest dense engine {engine}"
    elif ours_ms > (1 + _ALIKE) * dense_ms:
        speed = f"slower than the fastest dense engine {engine}: the cache does not pay here"
    else:
        speed = f"as long as on the fastest dense engine {engine}: the cache does not pay here"
    return [f"A frame takes {ours_ms:.1f} ms, {speed}."]


def _energy_section(run: StreamRun, name: str) -> Section:
    measured = [trace.joules for trace in run.traces[name] if trace.joules is not None]
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
        ],
        heads=("", "J per frame"),
        rows=rows,
    )
