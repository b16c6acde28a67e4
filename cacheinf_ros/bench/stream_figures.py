# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The figures of a stream: times, the fastest dense engines, losses, and what skipping frames would have done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cacheinf_ros.bench.alternatives import DenseRun
from cacheinf_ros.bench.interleaving import Interleaved
from cacheinf_ros.bench.loss import DENSE
from cacheinf_ros.bench.shots import Image
from cacheinf_ros.bench.stream_plan import BOUNDED, StreamPlan
from cacheinf_ros.bench.timing import summary
from cacheinf_ros.mode import Mode


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamFigures:
    """What was measured of the frames that count.

    Attributes:
        report: the figures, for JSON.
        dense_ms: the mean time of the fastest dense execution in float32.
        took_ms: time of each way and frame; None where nothing is done for it, and the last answer stands.
        built_on: see :class:`cacheinf_ros.bench.alternatives.Alternative`; ways that are not there compute each frame.
    """

    report: Mapping[str, Any]
    dense_ms: float
    took_ms: Mapping[str, Sequence[float | None]]
    built_on: Mapping[str, Sequence[int] | None]


def stream_figures(ran: Interleaved, plan: StreamPlan, images: Sequence[Image]) -> StreamFigures:
    """Compare the ways that ran; adds the alternatives, which follow from dense answers, to ``ran.losses``.

    Args:
        images: images of the frames that count.
    """
    losses = {name: ran.losses.loss(name) for name in sorted(ran.lossy)}
    float32_ms = _float32_ms(ran, plan)
    full = {name: float(np.mean(values)) for name, values in float32_ms.items()}
    keeping = {name: float(np.mean(ran.latency_ms[name])) for name, loss in losses.items() if loss["kept"]}
    best_full = min(full, key=full.__getitem__)
    every = {**full, **keeping}
    best = min(every, key=every.__getitem__)
    bounded_ms = float(np.mean(ran.latency_ms[BOUNDED]))
    busy_ms = {name: [trace.busy_ms for trace in traces] for name, traces in ran.traces.items()}
    took_ms: dict[str, Sequence[float | None]] = {**ran.latency_ms, DENSE: float32_ms[best_full]}
    built_on: dict[str, Sequence[int] | None] = {}
    dense = DenseRun(task=ran.task, images=images, decisions=ran.losses.decisions[DENSE], took_ms=float32_ms[best_full])
    for each in dense.alternatives(busy_ms[BOUNDED], plan.skips):
        ran.losses.add_decisions(each.name, each.decisions)
        took_ms[each.name], built_on[each.name] = each.took_ms, each.built_on
    return StreamFigures(
        report={
            "latency_ms": {name: summary(values) for name, values in ran.latency_ms.items()},
            "busy_ms": {name: summary(values) for name, values in busy_ms.items()},
            "best_dense": best,
            "speedup_vs_best_dense": round(every[best] / bounded_ms, 3),
            "best_dense_fp32": best_full,
            "best_dense_fp32_ms": round(full[best_full], 3),
            "speedup_vs_best_dense_fp32": round(full[best_full] / bounded_ms, 3),
            "contender_losses": losses,
            "held": round(float(np.mean(ran.held[BOUNDED])), 4),
            **ran.losses.report(BOUNDED),
            "notes": dict(ran.notes),
        },
        dense_ms=full[best_full],
        took_ms=took_ms,
        built_on=built_on,
    )


def _float32_ms(ran: Interleaved, plan: StreamPlan) -> dict[str, Sequence[float]]:
    """Return the time of each frame by every way that computes all of them in float32.

    With ``max_loss`` 0 the nodes take the fastest of them, of which one is this package's own, and match nothing then.
    Mode dense does match, so what that took is left out here.
    """
    found: dict[str, Sequence[float]] = {name: ran.latency_ms[name] for name in ran.engines if name not in ran.lossy}
    for name, settings in plan.own.items():
        if settings.config.mode is Mode.DENSE:
            pairs = zip(ran.latency_ms[name], ran.traces[name], strict=True)
            found[name] = [took_ms - trace.stage_ms.get("match", 0.0) for took_ms, trace in pairs]
    return found
