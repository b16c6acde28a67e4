# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Predicts what ``cacheinf bench offload`` measured, to tell how far the map of policies can be believed.

The predictions are those of :mod:`.policy_map`. They know the network, the operators' times on one processor, the
robot's share of a processor, the bandwidth, and the frames' reuse ratios. They do not know where in a frame the changes
are, nor what a frame takes besides its operators: matching, reading pixels, messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.offload.policy_map import predicted_ms
from cacheinf_ros.offload import WireImage
from cacheinf_ros.offload.planning import Machines, Scheduler, Workload
from cacheinf_ros.offload.planning.plan_table import solve
from cacheinf_ros.offload.planning.workload import Numbers

_LEVELS = 8  # reuse ratios that stand for those of all frames


def predicted_places(
    workload: Workload,
    one_core_ms: Numbers,
    report: Mapping[str, Any],
    *,
    schedule_s: float = 15.0,
    progress: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
    """Predict the policies of a report at each of its constant bandwidths.

    Args:
        workload: the workload of the report's network.
        one_core_ms: float64 [operators, points], the operators' times on one processor, which the server's are.
        report: what ``cacheinf bench offload`` wrote, see :func:`.run.run_offload_benchmark`.
        schedule_s: time for the search of schedules.
        progress: called with what is being done.

    Returns:
        for each bandwidth: mean milliseconds by policy, ``predicted`` and ``measured``; and ``regret``, by what factor
        the policy that is predicted to be the best took longer than the one that was.
    """
    slower = max(1.0, 1 / report["robot_cores"])
    machines = Machines(
        robot_ms=slower * one_core_ms,
        server_ms=one_core_ms,
        input_pixel_bytes=WireImage(report["wire_image"]).pixel_bytes,
    )
    progress(f"schedules for a server {slower:.3g} times as fast")
    table = solve(workload, machines, time_limit_s=schedule_s)
    places = []
    for name, found in report["bandwidth"].items():
        systems = found["systems"]
        if any("frames_ms" in figures for figures in systems.values()):
            continue  # the link followed a trace
        progress(f"{name} Mbit/s")
        by_system = ([reuse for reuse, _ in figures["reuse_ms"]] for figures in systems.values())
        ratios = [reuse for of_one in by_system if any(of_one) for reuse in of_one]  # of those with a cache
        at_levels = [
            predicted_ms(workload, Scheduler(workload, machines, table), machines, found["mbit_s"], ratio)
            for ratio in representatives(ratios)
        ]
        predicted = {
            policy: float(np.mean([took[policy] for took in at_levels])) for policy in at_levels[0] if policy in systems
        }
        measured = {policy: float(systems[policy]["latency_ms"]["mean"]) for policy in predicted}
        places.append(
            {
                "mbit_s": found["mbit_s"], "speed": slower, "reuse": float(np.mean(ratios or [0.0])),
                "predicted": predicted, "measured": measured, "regret": regret(predicted, measured),
            }
        )  # fmt: skip
    return places


def representatives(ratios: list[float]) -> list[float]:
    """Return quantiles that stand for reuse ratios, each for as many of them; 0 where there are none."""
    if not ratios:
        return [0.0]
    return np.quantile(ratios, (np.arange(_LEVELS) + 0.5) / _LEVELS).tolist()


def regret(predicted: Mapping[str, float], measured: Mapping[str, float]) -> float:
    """Return the measured time of the policy that is predicted to be the best, over the least measured time."""
    chosen = min(predicted, key=predicted.__getitem__)
    return measured[chosen] / min(measured.values())
