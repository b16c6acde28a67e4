# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Chooses between ways of running a model that were measured, and gives the reasons in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cacheinf_ros.bench.advice.choices import DROPPED_TOPIC, Choice, Kind
from cacheinf_ros.bench.advice.target import DEFAULT_LOSS, Goal, Target
from cacheinf_ros.bench.loss import DENSE, NOTHING_FOUND
from cacheinf_ros.bench.server_way import ServerLink
from cacheinf_ros.bench.stream_run import StreamRun
from cacheinf_ros.energy import PowerModel
from cacheinf_ros.engine.decisions import FEWEST_DECISIONS, Loss

CLEARLY = 0.95
"""The share of a plainer way's time that another way must not exceed to be worth it."""
_ALIKE = 0.002  # difference of losses that nobody notices
_LITTLE = 0.02  # share of the frames: where less is reused, it is not the cache that saves time


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One way of running the model, and what was measured of it.

    Attributes:
        mean_ms: mean time per frame of the camera.
        slowest_ms: 95th percentile of the time over the frames that are computed.
        loss: the loss against dense execution.
        held: share of the frames whose answer is that to an earlier one.
        busy_ms: mean time per frame of the camera, with all the work that no answer waits for.
        reused: share of the frames that was reused, in the mean; a held answer reuses all of its frame.
        watts: power of the robot's computer at the camera's rate, by the power model.
    """

    choice: Choice
    mean_ms: float
    slowest_ms: float
    loss: Loss
    held: float
    busy_ms: float
    reused: float
    watts: float

    @property
    def promise(self) -> float:
        """The smallest ``max_loss`` that the way keeps."""
        return self.loss.promise

    @property
    def saves_by_caching(self) -> bool:
        """Whether the cache, or held answers, save time in this way."""
        return self.choice.kind is Kind.CACHING and self.reused >= _LITTLE

    def meets(self, target: Target) -> bool:
        """Tell whether the way is within the target's limit."""
        if target.goal is Goal.RATE:
            return self.busy_ms <= 1e3 / target.limit
        if target.goal is Goal.LATENCY:
            return self.slowest_ms <= target.limit
        if target.goal is Goal.POWER:
            return self.watts <= target.limit
        return self.loss.within(target.limit)

    def report(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        return {
            "way": self.choice.name,
            "title": self.choice.title,
            "mean_ms": round(self.mean_ms, 3),
            "p95_ms": round(self.slowest_ms, 3),
            "loss": round(self.loss.whole, 4),
            "loss_where_it_moves": round(self.loss.moving, 4),
            "held": round(self.held, 4),
            "busy_ms": round(self.busy_ms, 3),
            "reused": round(self.reused, 4),
            "watts_modelled": round(self.watts, 3),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to run, and why.

    Attributes:
        ways: all ways that were measured.
        chosen: the recommended way, one that the nodes have.
        is_met: whether the target is met.
        caching_pays: whether a cache clearly saves time against everything else that meets the target.
        verdict: sentences for the user, the most important first.
    """

    target: Target
    ways: Sequence[Measured]
    chosen: Measured
    is_met: bool
    caching_pays: bool
    verdict: Sequence[str]

    def report(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        return {
            "target": str(self.target),
            "recommended": self.chosen.choice.name,
            "target_met": self.is_met,
            "caching_pays": self.caching_pays,
            "verdict": list(self.verdict),
            "ways": [way.report() for way in self.ways],
        }


def advise(
    run: StreamRun, choices: Sequence[Choice], target: Target, power: PowerModel, link: ServerLink | None = None
) -> Advice:
    """Choose among ways that were measured in one run.

    Args:
        choices: the plainest first, one of them dense.
        power: power model of the robot's computer.
        link: the link to the server, where there is one.
    """
    ways = [
        Measured(
            choice=choice,
            mean_ms=run.mean_ms(choice.name),
            slowest_ms=run.slowest_ms(choice.name),
            loss=run.loss(choice.name),
            held=run.held_share(choice.name),
            busy_ms=(busy_ms := _busy_ms(run, choice.name)),
            reused=_reused(run, choice.name),
            watts=_watts(busy_ms, 1e3 / run.report["fps"], power, _elsewhere_ms(choice, link)),
        )
        for choice in choices
    ]
    return choose(ways, target, decisions=run.losses.score(DENSE).total)


def _busy_ms(run: StreamRun, name: str) -> float:
    """Return the milliseconds of work per frame of the camera, including work that no answer waits for."""
    behind = [trace.busy_ms for trace in run.traces.get(name, ())]
    return float(np.mean(behind)) if any(behind) else run.mean_ms(name)


def _reused(run: StreamRun, name: str) -> float:
    """Return the share of the frames that one of this package's modes reused; 0 of other ways."""
    return float(np.mean([trace.reuse_ratio for trace in run.traces.get(name, ())] or [0.0]))


def _elsewhere_ms(choice: Choice, link: ServerLink | None) -> float:
    """Return the part of a frame's time in which the robot waits for the server, in milliseconds."""
    return link.round_trip_ms + link.server_ms if choice.kind is Kind.SERVER and link is not None else 0.0


def _watts(busy_ms: float, period_ms: float, power: PowerModel, elsewhere_ms: float) -> float:
    """Return the mean power in watts while a camera's frames are computed; sending counts as computing."""
    frame_ms = max(period_ms, busy_ms)
    return 1e3 * power.joules(frame_ms, busy_ms - elsewhere_ms, 0.0, 0.0) / frame_ms


def choose(ways: Sequence[Measured], target: Target, *, decisions: float) -> Advice:
    """Choose the way to recommend.

    Args:
        ways: the plainest first, one of them dense.
        decisions: how many decisions dense execution makes that count.
    """
    usable = [way for way in ways if way.choice.parameters is not None]
    meeting = [way for way in usable if way.meets(target)]
    # never empty: dense execution loses nothing
    considered = meeting or [way for way in usable if way.loss.within(DEFAULT_LOSS)]
    rivals = _rivals(considered, target if meeting else Target())
    chosen = best_of(rivals, Target())
    return Advice(
        target=target,
        ways=ways,
        chosen=chosen,
        is_met=bool(meeting),
        caching_pays=chosen.saves_by_caching,
        verdict=tuple(_sentences(ways, rivals, chosen, target, decisions)),
    )


def best_of(ways: Sequence[Measured], target: Target) -> Measured:
    """Return the fastest of the ways that lose little enough; of equally fast ones the plainest.

    Args:
        ways: the plainest first.
    """
    rivals = _rivals(ways, target)
    fastest = min(way.mean_ms for way in rivals)
    return next(way for way in rivals if CLEARLY * way.mean_ms <= fastest)


def _rivals(ways: Sequence[Measured], target: Target) -> list[Measured]:
    """Return the ways that lose the least, where the target limits time or power; otherwise all."""
    if target.goal is Goal.LOSS:
        return list(ways)
    least = min(way.promise for way in ways)
    return [way for way in ways if way.promise <= least + _ALIKE]


def _sentences(
    ways: Sequence[Measured], rivals: Sequence[Measured], chosen: Measured, target: Target, decisions: float
) -> list[str]:
    dense = next(way for way in ways if way.choice.name == DENSE)
    return [
        *_recommendation(chosen, dense, target),
        _about_caching(ways, rivals, chosen, dense, target),
        *_warnings(ways, chosen, target, decisions),
    ]


def _recommendation(chosen: Measured, dense: Measured, target: Target) -> list[str]:
    missed = f"No way that the nodes have reaches {target}; this is the fastest that loses little."
    unmet = [] if chosen.meets(target) else [missed]
    of_dense = "" if chosen is dense else f", {chosen.mean_ms / dense.mean_ms:.2f} of the fastest dense engine's time"
    loses = (
        f"loses {max(chosen.loss.whole, 0.0):.3f} ({max(chosen.loss.moving, 0.0):.3f} where things move)"
        if chosen.promise > 0
        else "loses nothing"
    )
    return [
        f"Run {chosen.choice.title}: {chosen.mean_ms:.1f} ms per frame in the mean{of_dense}, "
        f"{chosen.slowest_ms:.1f} ms in slow frames; it {loses} against dense execution.",
        *unmet,
    ]


def _about_caching(
    ways: Sequence[Measured], rivals: Sequence[Measured], chosen: Measured, dense: Measured, target: Target
) -> str:
    if chosen.saves_by_caching:
        return f"Caching pays here: a frame takes {chosen.mean_ms:.1f} ms, densely {dense.mean_ms:.1f}."
    if chosen.choice.kind is Kind.CACHING:
        return (
            f"Caching saves nothing here, as hardly anything could be reused ({chosen.reused:.1%}). "
            f"{chosen.choice.name} is the fastest all the same, with {chosen.mean_ms:.1f} ms per frame for "
            f"{dense.mean_ms:.1f} densely, by the engine and the precision that it computes in."
        )
    caching = [way for way in rivals if way.choice.kind is Kind.CACHING]
    if not caching:
        found = [way for way in ways if way.choice.kind is Kind.CACHING]
        return f"Caching is not worth it here: {_why_no_rival(found, chosen, target)}"
    best = min(caching, key=lambda way: way.mean_ms)
    takes = "takes" if best.mean_ms >= chosen.mean_ms else "is not clearly faster: it takes"
    return (
        f"Caching is not worth it here: the fastest mode that caches and loses little enough, {best.choice.title}, "
        f"{takes} {best.mean_ms:.1f} ms per frame; {chosen.choice.name} takes {chosen.mean_ms:.1f}."
    )


def _why_no_rival(caching: Sequence[Measured], chosen: Measured, target: Target) -> str:
    """Say why no mode that caches is among the ways to choose from."""
    if target.goal is Goal.LOSS or not caching or not chosen.meets(target):
        return "no mode that caches loses little enough."
    fast = [way for way in caching if way.meets(target)]
    if fast:
        best = min(fast, key=lambda way: way.mean_ms)
        return (
            f"{chosen.choice.name} is fast enough and loses less than the modes that cache; the fastest of these, "
            f"{best.choice.title}, takes {best.mean_ms:.1f} ms per frame and loses {best.promise:.3f}."
        )
    if target.goal is Goal.POWER:
        return f"no mode that caches takes so little power; the least is {min(way.watts for way in caching):.1f} W."
    if target.goal is Goal.RATE:
        nearest = min(caching, key=lambda way: way.busy_ms)
        return (
            f"no mode that caches is fast enough; the nearest, {nearest.choice.title}, takes {nearest.busy_ms:.1f} ms "
            "per frame with its work behind answers."
        )
    nearest = min(caching, key=lambda way: way.slowest_ms)
    return (
        f"no mode that caches is fast enough; the nearest, {nearest.choice.title}, takes {nearest.slowest_ms:.1f} ms "
        "in slow frames."
    )


def _warnings(ways: Sequence[Measured], chosen: Measured, target: Target, decisions: float) -> list[str]:
    found = []
    if chosen.choice.kind is Kind.SKIPPING:
        found.append(
            "Nothing watches what skipping loses: where the scene may become livelier than this recording, take "
            "bounded mode, which measures its loss while it runs."
        )
        found.append(
            "Frames are dropped by the ROS package topic_tools (ros-DISTRO-topic-tools), which runs beside the nodes. "
            f"Do not give the launch file image_topic:= as well: it would override {DROPPED_TOPIC}, and no frame would "
            "be skipped. Give drop the camera's topic instead."
        )
    if chosen.choice.kind is Kind.SERVER:
        found.append(
            "The server's time is what the figures of link and server say, not measured here; start it with "
            "`ros2 launch cacheinf_ros server.launch.py` and the same model. Frames that come too late are computed by "
            "the robot."
        )
    promised = (chosen.choice.parameters or {}).get("max_loss", 0.0)
    if target.goal is Goal.LOSS and isinstance(promised, float) and promised > target.limit:
        found.append(f"With max_loss {promised:g} it may lose more than {target.limit:g} elsewhere; it did not here.")
    quicker = [way for way in ways if way.choice.kind is Kind.PRECISION and way.meets(target)]
    best = best_of([chosen, *quicker] if chosen.meets(target) or not quicker else quicker, target)
    if best is not chosen:
        found.append(
            f"Dense in lower precision, {best.choice.name}, would take {best.mean_ms:.1f} ms and lose "
            f"{best.promise:z.3f}. No mode of the nodes is just that, but bounded mode computes frames so where that "
            "is allowed (dense_precision) and keeps its promise."
        )
    if decisions < FEWEST_DECISIONS:
        found.append(NOTHING_FOUND)
    return found
