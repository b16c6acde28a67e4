# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Compares the nodes' answers to a recording with what a user could do instead, which is computed afterwards.

Each dense engine goes through the whole recording by itself: dense answers judge those of the nodes, as in
``cacheinf bench stream``, and the results of skipping frames are derived from them. Boxes are compared as subscribers
get them, without those below the score threshold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any

import numpy as np
import torch

from cacheinf_ros.bench.alternatives import DenseRun
from cacheinf_ros.bench.contenders import AnyContender, Contender, dense_engines
from cacheinf_ros.bench.dense_answers import DenseAnswers
from cacheinf_ros.bench.kept_answers import KeptAnswer
from cacheinf_ros.bench.loss import DENSE, LossMeter
from cacheinf_ros.bench.node_answers import NodeAnswer, Reading, heard_answers
from cacheinf_ros.bench.shots import Image
from cacheinf_ros.bench.stream_run import StreamRun
from cacheinf_ros.bench.timing import measured
from cacheinf_ros.bench.trace import FrameTrace, Still
from cacheinf_ros.engine import EngineConfig, Preprocessor
from cacheinf_ros.engine.decisions import BoxDecisions, ClassMaps, SoftBoxes, Task, has_places
from cacheinf_ros.engine.dense_backends import Dense
from cacheinf_ros.errors import SourceError
from cacheinf_ros.graph import Model
from cacheinf_ros.harness.playback import FIRST_STAMP_NS, Played
from cacheinf_ros.sources import Frame, Source

NODES = "the nodes"
"""The name of the nodes' answers among the ways."""
_SAMPLES = 32  # frames for calibration, and for the standard deviation of outputs
_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayComparison:
    """The basis on which the answers of the nodes are compared.

    Attributes:
        config: configuration of the node's engine.
        contenders: the dense engines; of those in float32 only the fastest is used.
        readings: readings of the machine's energy while the nodes ran; ignored where one has no joules.
        fps: rate at which the recording was played, frames per second; 0: its own.
    """

    config: EngineConfig
    contenders: Sequence[Contender]
    readings: Sequence[Reading]
    fps: float = 0.0


def compare_replay(
    model: Model,
    source: Source,
    played: Played,
    comparison: ReplayComparison,
    progress: Callable[[str, int, int], None] = lambda engine, done, total: None,
) -> StreamRun:
    """Judge the nodes' answers to a recording.

    Args:
        source: the recording that was played; it is read once for each engine.
        progress: is called with an engine's name, how many frames it has done, and how many there are.

    Raises:
        SourceError: fewer than two frames have an answer that can be compared.
    """
    threads = comparison.config.threads
    torch.set_num_threads(threads)
    images = _sample(source, played.published)
    dense = dense_engines(model, comparison.contenders, threads, images)
    exact = _fastest(model, dense, images)
    densely = DenseAnswers(model, dense[exact], images)
    answers = _node_answers(densely, source, played, images[0])
    if len(answers) < 2:
        raise SourceError(f"{len(answers)} frames have an answer that can be compared; at least 2 are needed")
    losses = LossMeter(densely.task, comparison.config.max_loss)
    took_ms: dict[str, Sequence[float | None]] = {}
    dense_ms: list[float] = []
    wanted = {answer.frame for answer in answers}
    for contender, run in dense.items():
        if contender is not exact and not contender.precision.loses:
            continue
        name = contender.value if contender.precision.loses else DENSE
        densely.outputs(run, images[0])  # the nodes have warmed up, too
        given: list[KeptAnswer] = []
        for frame in _frames(source, wanted):
            given.append(densely.answer(run, frame.image, measured))
            progress(name, len(given), len(answers))
        losses.add_decisions(name, [_seen(answer.decision) for answer in given])
        took_ms[name] = [answer.took_ms for answer in given]
        if name == DENSE:
            dense_ms = [answer.took_ms for answer in given]
    losses.add_decisions(NODES, [_seen(answer.decision) for answer in answers])
    dense_run = DenseRun(task=densely.task, images=(), decisions=losses.decisions[DENSE], took_ms=dense_ms)
    for each in dense_run.every_few():
        losses.add_decisions(each.name, each.decisions)
        took_ms[each.name] = each.took_ms
    return StreamRun(
        report={
            "model": model.name,
            "size": "x".join(map(str, model.input_size)),
            "frames": len(answers),
            "threads": threads,
            "fps": comparison.fps or source.fps,
            "best_dense_fp32": exact.value,
        },
        labels=model.card.labels,
        stills=[Still.of(frame.image, model.card.pictures) for frame in _frames(source, wanted)],
        losses=losses,
        took_ms={**took_ms, NODES: [answer.compute_ms for answer in answers]},
        held={NODES: [answer.held for answer in answers]},
        traces={NODES: _traces(played, answers, comparison.readings)},
    )


def _fastest(model: Model, dense: Mapping[AnyContender, Dense], images: Sequence[Image]) -> AnyContender:
    """Return the fastest engine in float32."""
    prepared = Preprocessor(model.card).input(images[0])
    took_ms = {
        contender: min(measured(run, prepared)[1] for _ in range(_TRIES))
        for contender, run in dense.items()
        if not contender.precision.loses
    }
    return min(took_ms, key=took_ms.__getitem__)


def _node_answers(densely: DenseAnswers, source: Source, played: Played, image: Image) -> list[NodeAnswer]:
    """Return the answers of the nodes, in the order of the frames; ``image``: a frame, which are all of one size."""
    indices = {FIRST_STAMP_NS + frame.stamp_ns: frame.index for frame in islice(source, played.published)}
    task: Task[Any] = densely.task
    size = (image.shape[0], image.shape[1])
    example = task.read(densely.example, size)
    is_map = isinstance(task, ClassMaps) and has_places(example)
    if not is_map and not isinstance(task, BoxDecisions):
        lacking = set(densely.example).difference(*(result.outputs for result in played.results[:1]))
        if lacking:
            raise SourceError(
                f"results lack outputs, which are too large for messages: {', '.join(lacking)}; where they are "
                "classes, labels or a decoder in a model card say so (docs/models.md)"
            )
    heard = heard_answers(played, task, indices, size, example.shape if is_map else None)
    return sorted({answer.frame: answer for answer in heard}.values(), key=lambda answer: answer.frame)


def _seen(decision: Any) -> Any:
    """Remove boxes below the score threshold, because nodes do not publish them."""
    return decision.reported if isinstance(decision, SoftBoxes) else decision


def _frames(source: Source, wanted: Collection[int]) -> Iterator[Frame]:
    last = max(wanted)
    return (frame for frame in takewhile(lambda frame: frame.index <= last, source) if frame.index in wanted)


def _sample(source: Source, frames: int) -> list[Image]:
    return [frame.image for frame in islice(source, 0, frames, max(1, frames // _SAMPLES))]


def _traces(played: Played, answers: Sequence[NodeAnswer], readings: Sequence[Reading]) -> list[FrameTrace]:
    results = {result.stamp_ns: result for result in played.results}
    joules = _joules([answer.at_ns for answer in answers], readings)
    found = []
    for answer, used in zip(answers, joules, strict=True):
        result, link = results[answer.stamp_ns], played.links.get(answer.stamp_ns)
        promise = played.promises.get(answer.stamp_ns)
        found.append(
            FrameTrace(
                mode=result.mode,
                stage_ms=result.stage_ms,
                reuse_ratio=result.reuse_ratio,
                active_share=result.active_share,
                cache_map=None if link is None or answer.held or not result.reuse_ratio else link.cache_map,
                asked=None if promise is None else _known(promise.asked),
                measured=None if promise is None else _known(promise.measured),
                joules=used,
            )
        )
    return found


def _joules(at_ns: Sequence[int], readings: Sequence[Reading]) -> list[float | None]:
    """Return the machine's energy from each answer to the next one; None without a meter, and for the last."""
    drawn = [each.joules for each in readings if each.joules is not None]
    if len(drawn) < len(readings) or not drawn:
        return [None] * len(at_ns)
    used = np.diff(np.interp(at_ns, [each.at_ns for each in readings], drawn))
    return [*(float(value) for value in used), None]


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
