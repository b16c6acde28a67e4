# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Predicts which policy is best where: frames over bandwidth, server speed and reuse.

No machine here is 10 or 20 times as fast as another. So the robot's operators are measured, the server's are assumed
to be so many times faster, and the time of frames follows from the timeline that the nodes schedule by
(:mod:`cacheinf_ros.offload.planning.timeline`). For servers that are a few times as fast,
:mod:`.measured_places` puts the predictions beside what real nodes took.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cacheinf_ros.offload.planning import Machines, Scheduler, Workload
from cacheinf_ros.offload.planning.minimum_cut import dnn_surgery
from cacheinf_ros.offload.planning.partition_search import search
from cacheinf_ros.offload.planning.plan_table import solve
from cacheinf_ros.offload.planning.timeline import Timeline
from cacheinf_ros.offload.planning.workload import Integers, Numbers
from cacheinf_ros.offload_policy import OffloadPolicy

MBIT_S = (1.0, 4.0, 16.0, 48.0, 200.0)
SPEEDS = (1.0, 3.0, 10.0, 20.0)
REUSE = (0.0, 0.5, 0.8, 0.95)
BASELINES = ("local", "remote", "dnn_surgery", "dnn_surgery_cached", "hybrid_parallel")
_WITHOUT_CACHE = ("dnn_surgery", "hybrid_parallel")
_SEARCH_S = 0.5  # search time at each place


def policy_map(
    workload: Workload,
    robot_ms: Numbers,
    *,
    mbit_s: Sequence[float] = MBIT_S,
    speeds: Sequence[float] = SPEEDS,
    reuse: Sequence[float] = REUSE,
    schedule_s: float = 15.0,
    progress: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
    """Predict a frame of each policy at each place of the map.

    Args:
        workload: the workload of a network.
        robot_ms: float64 [operators, points], the robot's times.
        mbit_s, speeds, reuse: the link's bandwidths, the server's speeds over the robot's, and the input's reuse
            ratios.
        schedule_s: time for the search of schedules, for each speed.
        progress: called with what is being done.

    Returns:
        for each place: milliseconds by policy, and of ``searched``, the best that a search at this very place finds;
            which
        baseline is best; and ``cacheinf``'s time over that one's and over the best of all.
    """
    places = []
    for speed in speeds:
        progress(f"a server {speed:g} times as fast")
        machines = Machines(robot_ms=robot_ms, server_ms=robot_ms / speed)
        table = solve(workload, machines, time_limit_s=schedule_s)
        for bandwidth in mbit_s:
            for ratio in reuse:
                took = _predicted(workload, Scheduler(workload, machines, table), machines, bandwidth, ratio)
                places.append(_compared({"mbit_s": bandwidth, "speed": speed, "reuse": ratio}, took))
    return places


def beside_everything(within: Sequence[dict[str, Any]], everything: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare each place of a map with merged caches with the same place where everything is kept.

    Which maps are kept is chosen before frames are divided, for a robot alone. Whatever one optimiser of both would
    choose within the same memory, it would end no sooner than the optimum with everything kept, of which the best that
    a search finds there is the nearest known.

    Args:
        within: a map of a network of which not all maps are kept.
        everything: the map at the same places, where all are kept.

    Returns:
        the places of ``within``. Baselines without a cache are those of ``everything``: they may cut anywhere.
        ``over_everything`` is ``cacheinf``'s time over the best of all with everything kept.
    """
    return [_beside(place, full) for place, full in zip(within, everything, strict=True)]


def _beside(place: dict[str, Any], full: dict[str, Any]) -> dict[str, Any]:
    took = place["ms"] | {name: full["ms"][name] for name in _WITHOUT_CACHE}
    best_full = min(full["ms"].values())
    return _compared(place, took) | {"over_everything": took["cacheinf"] / best_full}


def _compared(place: dict[str, Any], took: dict[str, float]) -> dict[str, Any]:
    """Return a place with times by policy, and how ours compares with them."""
    best = min(BASELINES, key=took.__getitem__)
    return place | {
        "ms": took, "best_baseline": best,
        "over_baseline": took["cacheinf"] / took[best], "over_best": took["cacheinf"] / min(took.values()),
    }  # fmt: skip


def dense_ms(workload: Workload, machines: Machines, mbit_s: float) -> dict[str, float]:
    """Predict a frame's milliseconds by the policies without a cache, which compute everything."""
    everything = np.ones(len(workload.heights))
    conditions = machines.conditions(mbit_s, everything, everything)
    timeline, cut = Timeline(workload, conditions), dnn_surgery(workload, conditions)
    return {
        "local_dense": timeline.end(workload.heights[1:].copy()),
        "dnn_surgery": timeline.end(cut),
        "hybrid_parallel": timeline.end(search(workload, timeline, [cut], time_limit_s=_SEARCH_S)),
    }


def cached_ms(
    workload: Workload, scheduler: Scheduler, machines: Machines, mbit_s: float, active: Numbers
) -> dict[str, float]:
    """Predict a frame's milliseconds by the policies with a cache.

    Args:
        active: float64 [tensors], the share of each tensor that changes.
    """
    conditions = machines.conditions(mbit_s, active, active)
    timeline = Timeline(workload, conditions)
    whole: Integers = workload.heights[1:].copy()
    return {
        "local": timeline.end(whole),
        "remote": timeline.end(np.zeros_like(whole)),
        "dnn_surgery_cached": timeline.end(dnn_surgery(workload, conditions)),
        "cacheinf": min(map(timeline.end, scheduler.candidates(OffloadPolicy.CACHEINF, machines, mbit_s, active))),
    }


def _predicted(
    workload: Workload, scheduler: Scheduler, machines: Machines, mbit_s: float, reuse: float
) -> dict[str, float]:
    """Predict a frame's milliseconds by policy, and those of the best that a search finds (``searched``)."""
    active = workload.active_at(reuse)
    timeline = Timeline(workload, machines.conditions(mbit_s, active, active))
    ours = scheduler.candidates(OffloadPolicy.CACHEINF, machines, mbit_s, active)
    return {
        **dense_ms(workload, machines, mbit_s),
        **cached_ms(workload, scheduler, machines, mbit_s, active),
        "searched": timeline.end(search(workload, timeline, ours, time_limit_s=_SEARCH_S)),
    }


def plot_policy_map(places: Sequence[dict[str, Any]], path: Path) -> None:
    """Plot a panel per speed: the best baseline's name, and as colour how much sooner ``cacheinf`` ends."""
    from matplotlib.figure import Figure

    speeds, links, ratios = (sorted({place[key] for place in places}) for key in ("speed", "mbit_s", "reuse"))
    figure = Figure(figsize=(4.2 * len(speeds), 4.0), layout="constrained")
    for axes, speed in zip(figure.subplots(1, len(speeds), squeeze=False)[0], speeds, strict=True):
        gains = np.zeros((len(ratios), len(links)))
        for place in places:
            if place["speed"] == speed:
                row, column = ratios.index(place["reuse"]), links.index(place["mbit_s"])
                gains[row, column] = 1 - place["over_baseline"]
                axes.text(column, row, place["best_baseline"].replace("_", "\n"), ha="center", va="center", fontsize=6)
        image = axes.imshow(gains, vmin=0.0, vmax=0.5, cmap="Greens", origin="lower", aspect="auto")
        axes.set(title=f"server {speed:g} times as fast", xlabel="Mbit/s", ylabel="reuse")
        axes.set_xticks(range(len(links)), [f"{link:g}" for link in links])
        axes.set_yticks(range(len(ratios)), [f"{ratio:g}" for ratio in ratios])
    figure.colorbar(image, ax=axes, label="cacheinf ends sooner than the best baseline by")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
