# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Predicts what ``cacheinf bench offload`` measured, to tell how far the map of policies can be believed.

The predictions are those of :mod:`.policy_map`, which takes a frame's changes to lie together in a rectangle, and
others that know where they really are, as a robot's scheduler does. Both know the network, the operators' times on one
processor, the robot's share of a processor and the bandwidth. Neither knows what a frame takes besides its operators:
matching, reading pixels, messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.offload.policy_map import cached_ms, dense_ms
from cacheinf_ros.config import parse_size
from cacheinf_ros.engine import Engine, EngineConfig, Mode, Outdated, matching_for
from cacheinf_ros.errors import ConfigError, LinkError
from cacheinf_ros.graph import load_model
from cacheinf_ros.matching import MatchingStream
from cacheinf_ros.offload import WireImage
from cacheinf_ros.offload.planning import Machines, Scheduler, Workload, profile
from cacheinf_ros.offload.planning.plan_table import ScheduleTable, solve
from cacheinf_ros.offload.planning.workload import Numbers
from cacheinf_ros.sources import open_source

PREDICTED = (
    "local_dense", "dnn_surgery", "hybrid_parallel", "local", "remote", "dnn_surgery_cached", "cacheinf",
)  # fmt: skip
"""The policies that are predicted."""


class Activities:
    """Watches, as a server that declines every frame, which shares of the tensors change from frame to frame.

    Attributes:
        epoch, is_awaited: see :class:`cacheinf_ros.engine.RemotePeer`.
        active: float64 [tensors] for each frame.
    """

    epoch = 0
    is_awaited = True

    def __init__(self, workload: Workload) -> None:
        self.active: list[Numbers] = []
        self._workload = workload

    def choose(self, outdated: Outdated) -> None:
        """Take note of what has changed, and decline."""
        self.active.append(self._workload.activity.shares(outdated.changed).copy())

    def begin(self, *what: Any, **more: Any) -> Any:
        """Refuse: no frame is shared."""
        raise LinkError("no frame is shared with what only watches")

    send = receive = fail = begin


def network_of(report: Mapping[str, Any]) -> tuple[Engine, Workload, Numbers]:
    """Return an engine for a report's network, its workload, and the operators' times on one processor.

    The times are float64 [operators, points]; see :func:`profile`.
    """
    weights = Path(report["weights"]) if report["weights"] else None
    model = load_model(report["model"], weights=weights, input_size=parse_size(report["size"]))
    engine = Engine(model, EngineConfig(threads=1), with_server=True)
    workload = Workload(engine.program.layout)
    return engine, workload, profile(engine.program.layout, workload.space, engine.cost)


def observed_activities(report: Mapping[str, Any], engine: Engine, workload: Workload) -> Sequence[Numbers]:
    """Return the active shares, float64 [tensors], of each frame that counted, as the robot's node has seen them."""
    stream = MatchingStream(matching_for(Mode.EXACT, threshold_db=report["threshold"]))
    watching = Activities(workload)
    for frame in islice(open_source(report["source"]), report["warm"] + report["frames"]):
        engine.run(frame.image, stream.match(frame.image), watching)
    return watching.active[report["warm"] :] or watching.active  # as :class:`.tally.Tally` counts


def predicted_places(
    workload: Workload,
    one_core_ms: Numbers,
    report: Mapping[str, Any],
    activities: Sequence[Numbers],
    *,
    schedule_s: float = 15.0,
    progress: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
    """Predict the policies of a report at each of its constant bandwidths.

    Args:
        workload: the workload of the report's network.
        one_core_ms: float64 [operators, points], the operators' times on one processor, which the server's are.
        report: what ``cacheinf bench offload`` wrote, see :func:`.run.run_offload_benchmark`.
        activities: float64 [tensors] for each frame, see :func:`observed_activities`.
        schedule_s: time for the search of schedules.
        progress: called with what is being done.

    Returns:
        for each bandwidth: mean milliseconds by policy, ``measured``, ``predicted`` from where changes are, and
        ``by_map`` from how much has changed alone; ``regret``, by what factor the policy that is predicted to be the
        best took longer than the one that was; the mean ``reuse`` ratio of the input, and ``reads_as``, that at which
        as much is computed where changes lie together: the place to look at in the map.
    """
    slower = max(1.0, 1 / report["robot_cores"])
    machines = Machines(
        robot_ms=slower * one_core_ms,
        server_ms=one_core_ms,
        input_pixel_bytes=WireImage(report["wire_image"]).pixel_bytes,
    )
    progress(f"schedules for a server {slower:.3g} times as fast")
    predictor = _Predictor(workload, machines, solve(workload, machines, time_limit_s=schedule_s))
    reuse = [1 - float(active[0]) for active in activities]
    reads_as = float(np.mean([workload.reuse_at(active) for active in activities]))
    together = [workload.active_at(ratio) for ratio in reuse]
    places = []
    for name, found in report["bandwidth"].items():
        systems = found["systems"]
        if any("frames_ms" in figures for figures in systems.values()):
            continue  # the link followed a trace
        progress(f"{name} Mbit/s")
        if not systems.keys() & set(PREDICTED):
            raise ConfigError(f"of the policies in this report none is predicted; known are {', '.join(PREDICTED)}")
        predicted, by_map = (
            {policy: ms for policy, ms in each.items() if policy in systems}
            for each in predictor.mean_ms(found["mbit_s"], activities, together)
        )
        measured = {policy: float(systems[policy]["latency_ms"]["mean"]) for policy in predicted}
        places.append(
            {
                "mbit_s": found["mbit_s"], "speed": slower, "reuse": float(np.mean(reuse)), "reads_as": reads_as,
                "measured": measured,
                "predicted": predicted, "by_map": by_map, "regret": regret(predicted, measured),
            }
        )  # fmt: skip
    return places


@dataclass(frozen=True, slots=True)
class _Predictor:
    """Predicts what frames take by each policy, from what is active in them."""

    workload: Workload
    machines: Machines
    table: ScheduleTable

    def mean_ms(self, mbit_s: float, *recordings: Sequence[Numbers]) -> Iterator[dict[str, float]]:
        """Yield for each recording the mean milliseconds by policy; a recording has active shares for each frame."""
        without_cache = dense_ms(self.workload, self.machines, mbit_s)
        for actives in recordings:
            scheduler = Scheduler(self.workload, self.machines, self.table)
            frames = [cached_ms(self.workload, scheduler, self.machines, mbit_s, active) for active in actives]
            yield without_cache | {policy: float(np.mean([took[policy] for took in frames])) for policy in frames[0]}


def regret(predicted: Mapping[str, float], measured: Mapping[str, float]) -> float:
    """Return the measured time of the policy that is predicted to be the best, over the least measured time."""
    chosen = min(predicted, key=predicted.__getitem__)
    return measured[chosen] / min(measured.values())
