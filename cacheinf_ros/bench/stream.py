# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench stream``: measures what a user gets on a recording, against everything a user could do instead.

Every frame goes through bounded mode, as the nodes run it, and through every dense engine, in turn. Times count from
the frame to what the user gets, decoded boxes included. The work that bounded mode does after an answer, to judge it,
counts where it delays the next frame of the camera, and always in ``busy_ms``. Answers are judged by what dense answers
to neighbouring frames agree on, and by what truly is in a frame where the source knows that: both as if they took no
time, and as they would arrive at the camera's rate.

The dense engines in float32 compute the same, so only one of them is judged; skipping frames takes the corresponding
share of the fastest one's time. Engines of lower precision are judged like bounded mode, and count as dense engines
where they keep the same promise. Finally the real nodes answer the same frames at the camera's rate, and are judged in
the same way (:mod:`cacheinf_ros.bench.stream_nodes`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from cacheinf_ros.bench.camera_rate import judge_at_rate
from cacheinf_ros.bench.contenders import dense_engines
from cacheinf_ros.bench.drawn_maps import drawn_maps
from cacheinf_ros.bench.interleaving import Interleaved
from cacheinf_ros.bench.judge import Judge
from cacheinf_ros.bench.shots import Shot
from cacheinf_ros.bench.stream_figures import stream_figures
from cacheinf_ros.bench.stream_plan import StreamPlan
from cacheinf_ros.bench.stream_run import StreamRun
from cacheinf_ros.bench.trace import Still
from cacheinf_ros.bench.truth_score import TruthClasses
from cacheinf_ros.engine.frame_placement import left_picture
from cacheinf_ros.errors import SourceError
from cacheinf_ros.graph import Model

PlayThroughNodes = Callable[[Judge, Sequence[Shot], float], dict[str, Any]]
"""A function that plays frames through the nodes, and returns figures.

It takes the judge of the frames that count, all frames with those to warm up, and the milliseconds of dense execution.
"""


def run_stream_benchmark(
    model: Model,
    shots: Iterable[Shot],
    plan: StreamPlan,
    *,
    nodes: PlayThroughNodes | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> StreamRun:
    """Measure a model on a stream of frames.

    Args:
        nodes: plays the same frames through the real nodes; None: the nodes are left out.
        progress: is called with how many frames are done and how many there are, those to warm up included.

    Raises:
        SourceError: there are not enough frames, or drawn class maps are none of this model's.
        ConfigError: the model has no class of the name ``truth_class``.
    """
    TruthClasses(model.card.labels, plan.truth_class)  # a wrong name is an error before frames are read
    torch.set_num_threads(plan.config.threads)
    taken = list(itertools.islice(shots, plan.warm_up + plan.frames))
    if len(taken) < plan.warm_up + 2:
        raise SourceError(f"the source has {len(taken)} frames; the benchmark needs at least {plan.warm_up + 2}")
    images, counted = [shot.image for shot in taken], taken[plan.warm_up :]
    classes = TruthClasses(model.card.labels, plan.truth_class, counted[0].marked)
    dense = dense_engines(model, plan.contenders, plan.config.threads, images, plan.config.device)
    ran = Interleaved(model, plan, dense, images)
    is_judged = plan.at_rate or nodes is not None
    maps = drawn_maps(counted, ran.task, model) if is_judged else None
    for index, shot in enumerate(taken):
        progress(index, len(taken))
        if index == plan.warm_up and plan.is_brief:
            ran.narrow()
        ran.run(shot, turn=index, counts=index >= plan.warm_up)
    ran.forget_kept()
    figures = stream_figures(ran, plan, [left_picture(image, model.card) for image in images[plan.warm_up :]])
    judge = Judge(
        task=ran.task, agreed=ran.losses.agreed, objects=[shot.objects for shot in counted], classes=classes,
        maps=maps,
    )  # fmt: skip
    report = {
        "model": model.name,
        "size": "x".join(map(str, model.input_size)),
        "frames": len(counted),
        "warm_up": plan.warm_up,
        "threads": plan.config.threads,
        "device": plan.config.device,
        "fps": plan.fps,
        **figures.report,
        "ways": judge_at_rate(ran, figures, judge, taken, plan) if plan.at_rate else {},
        "nodes": None if nodes is None else nodes(judge, taken, figures.dense_ms),
    }
    return StreamRun(
        report=report, labels=model.card.labels, losses=ran.losses, took_ms=figures.took_ms, held=ran.held,
        stills=[Still.of(shot.image, model.card.pictures) for shot in counted], traces=ran.traces,
    )  # fmt: skip
