# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Runs the cached engine and every dense one on the same frames, in turn, and measures their answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.bench.answer import SCORE_THRESHOLD, Answer
from cacheinf_ros.bench.contenders import ALL_CONTENDERS, AnyContender, Contender
from cacheinf_ros.bench.loss import MOST_PIXELS, LossMeter
from cacheinf_ros.bench.measures import Comparison, MeasuredFrame, Measures
from cacheinf_ros.bench.output_errors import ErrorScale, Outputs
from cacheinf_ros.bench.policies import Skipping
from cacheinf_ros.bench.shots import Image, Shot
from cacheinf_ros.bench.timing import measured, timed
from cacheinf_ros.cache_map import Motion
from cacheinf_ros.engine import Engine, EngineResult, Preprocessor, Selection
from cacheinf_ros.engine.decisions import task_of_model
from cacheinf_ros.engine.dense_backends import Dense
from cacheinf_ros.engine.following import shifted
from cacheinf_ros.engine.frame_placement import left_picture, picture_size
from cacheinf_ros.matching import MatchingStream
from cacheinf_ros.sources import OBJECT_LABELS

CACHED = "cached"
"""The name of the cached engine among the contenders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The times and shares of the frames that count, in their order.

    Attributes:
        latency_ms: latencies by contender.
        stage_ms: times of the cached engine by stage.
        reuse: shares of reused pixels.
        active: shares of the FLOPs that were computed.
        audits: audits of bounded mode: latency_ms, engine_error and missed_change of each.
    """

    latency_ms: dict[str, list[float]] = field(default_factory=dict)
    stage_ms: dict[str, list[float]] = field(default_factory=dict)
    reuse: list[float] = field(default_factory=list)
    active: list[float] = field(default_factory=list)
    audits: dict[str, list[float]] = field(default_factory=dict)

    def note(self, latency_ms: dict[str, float], result: EngineResult, matching_ms: float) -> None:
        """Add a frame."""
        _append(self.latency_ms, latency_ms)
        _append(self.stage_ms, {"match": matching_ms, **result.stage_ms})
        self.reuse.append(result.reuse_ratio)
        self.active.append(result.active_share)

    def note_audit(self, audit: Mapping[str, float]) -> None:
        """Add an audit, by the names of :attr:`audits`."""
        _append(self.audits, audit)

    @property
    def dense_ms(self) -> dict[str, float]:
        """The mean latency of each dense contender in float32."""
        lossy = {contender.value for contender in ALL_CONTENDERS if contender.precision.loses}
        return {
            name: float(np.mean(values))
            for name, values in self.latency_ms.items()
            if name != CACHED and name not in lossy
        }

    @property
    def cached_ms(self) -> float:
        """The mean latency of the cached engine."""
        return float(np.mean(self.latency_ms[CACHED]))


class Race:
    """Runs all contenders, frame by frame, and measures what they answer.

    Attributes:
        log: times and shares.
        losses: how often answers are right; None before the first frame that counts.
        measures: the quality of the cached engine's answers.
        skipped: comparison of skipping frames with dense execution: the last dense answer is computed as often as the
            cached engine's time allows.
        warped: comparison of the last dense answer, moved with the picture, with dense execution.
        computed: how many frames these two policies computed.
    """

    def __init__(
        self,
        engine: Engine,
        stream: MatchingStream | None,
        dense: Mapping[AnyContender, Dense],
        exact: Dense,
        scale: ErrorScale,
    ) -> None:
        self._engine = engine
        self._stream = stream
        self._exact = exact
        self._scale = scale
        self._preprocessor = Preprocessor(engine.model.card)
        self._runs: list[tuple[str, Callable[[Shot], Any]]] = [(CACHED, self._cached)]
        self._runs += [(contender.value, self._densely(run)) for contender, run in dense.items()]
        self._lossy = [contender.value for contender in dense if contender.precision.loses]
        self._knows_objects = engine.model.card.labels == OBJECT_LABELS
        self._composed: Image | None = None
        self._matching_ms = 0.0  # of the last frame
        self._skipping = Skipping(picture_size(engine.model.card))
        self.log = Log()
        self.losses: LossMeter | None = None
        self.measures = Measures(scale)
        self.skipped, self.warped = Comparison(scale), Comparison(scale)

    @property
    def computed(self) -> int:
        """The number of frames that the policies computed."""
        return self._skipping.computed

    def contender_losses(self) -> dict[str, dict[str, Any]]:
        """Return the loss of each contender of lower precision, and whether it keeps the cached engine's promise."""
        return {name: self.losses.loss(name) for name in self._lossy} if self.losses is not None else {}

    def run(self, shot: Shot, *, turn: int, counts: bool) -> None:
        """Give a frame to every contender, in an order that rotates with each turn, and compare their answers."""
        answers, latency_ms = self._timed(shot, turn)
        frame = self._measured(shot, answers[CACHED], answers.get(Contender.EAGER.value))
        if counts:
            self.log.note(latency_ms, answers[CACHED], self._matching_ms)
            self.measures.add(frame, shot.truth if self._knows_objects else None)
            self._judge(frame, {name: answers[name] for name in self._lossy})
        else:
            self.measures.see(frame)
        if self._engine.bounded.audit_due:
            self._audit(frame)
        if counts:
            self._compare_policies(shot.image, frame.on_frame)

    def _judge(self, frame: MeasuredFrame, lossy: Mapping[str, Outputs]) -> None:
        """Note what was decided, by the cached engine and densely; it is judged when all frames are known.

        Args:
            lossy: outputs of contenders of lower precision.
        """
        size, ours, dense = frame.on_frame.image_size, frame.ours, frame.on_frame
        if self.losses is None:
            task = task_of_model(
                self._engine.model.card, dense.outputs, self._scale.deviations,
                selection=Selection(score_threshold=SCORE_THRESHOLD), most_pixels=MOST_PIXELS,
            )  # fmt: skip
            self.losses = LossMeter(task, self._engine.config.max_loss)
        read = self.losses.task.read
        others = {name: read(dict(zip(dense.outputs, outputs, strict=True)), size) for name, outputs in lossy.items()}
        self.losses.add(read(dense.outputs, size), {CACHED: read(ours.outputs, size, ours.motion), **others})

    def _timed(self, shot: Shot, turn: int) -> tuple[dict[str, Any], dict[str, float]]:
        first = turn % len(self._runs)
        timings = {name: timed(run, shot) for name, run in self._runs[first:] + self._runs[:first]}
        return {name: answer for name, (answer, _) in timings.items()}, {name: ms for name, (_, ms) in timings.items()}

    def _cached(self, shot: Shot) -> EngineResult:
        if self._stream is None:
            return self._engine.run(shot.image, shot.cache_map)
        cache_map, self._matching_ms = measured(self._stream.match, shot.image)
        result = self._engine.run(shot.image, cache_map)
        self._stream.learn(self._stream.choice, result.active_share, result.stage_ms["compute"])
        return result

    def _densely(self, run: Dense) -> Callable[[Shot], Outputs]:
        return lambda shot: run(self._preprocessor.input(shot.image))

    def _changed(self, before: Image | None, composed: Image, result: EngineResult) -> NDArray[np.bool_]:
        """Return where the composed input changed in any of its pictures: bool [height, width of one]."""
        changed = np.split(_changed(before, composed, result), self._engine.model.card.pictures, axis=1)
        return np.asarray(np.logical_or.reduce(changed))

    def _measured(self, shot: Shot, result: EngineResult, exact: Outputs | None) -> MeasuredFrame:
        """Collect the frame's answers; ``exact``: the outputs for the frame, where a contender has computed them."""
        composed, before = self._engine.composed, self._composed
        self._composed = composed
        on_frame = self._answer(shot, exact or self._exact(self._preprocessor.input(shot.image)))
        if result.motion.is_none and np.array_equal(composed, self._preprocessor.resize(shot.image)):
            on_composed = on_frame
        else:
            on_composed = self._answer(shot, self._exact(self._engine.input_of(composed)), result.motion)
        return MeasuredFrame(
            ours=self._answer(shot, list(result.outputs.values()), result.motion),
            on_composed=on_composed,
            on_frame=on_frame,
            changed=self._changed(before, composed, result),
            refreshed=result.refreshed,
            shift=result.shift,
        )

    def _answer(self, shot: Shot, outputs: Outputs, motion: Motion | None = None) -> Answer:
        model = self._engine.model
        named = {name: value for (name, _), value in zip(model.graph.outputs, outputs, strict=True)}
        return Answer(named, model.card, (shot.image.shape[0], shot.image.shape[1]), motion)

    def _compare_policies(self, image: Image, dense: Answer) -> None:
        means = self.log.dense_ms
        if not means:
            return
        cached_ms = self.log.latency_ms[CACHED][-1]
        picture = left_picture(image, self._engine.model.card)
        repeated = self._skipping.answer(picture, dense, cached_ms=cached_ms, dense_ms=min(means.values()))
        self.skipped.add(repeated.skipped, dense)
        if repeated.warped is not None:
            self.warped.add(repeated.warped, dense)

    def _audit(self, frame: MeasuredFrame) -> None:
        audit, milliseconds = timed(self._engine.bounded.audit)
        if audit is not None:
            if self.log.reuse:
                self.log.latency_ms[CACHED][-1] += milliseconds  # an audit is part of the mode's cost
            self.log.note_audit(
                {
                    "latency_ms": milliseconds,
                    "engine_error": audit.engine_error,
                    "missed_change": audit.missed_change,
                }
            )
            self.measures.refresh(frame.on_composed)


def _changed(before: Image | None, composed: Image, result: EngineResult) -> NDArray[np.bool_]:
    """Return which pixels of the composed input changed, apart from being moved: bool [height, width]."""
    if before is None:
        return np.ones(composed.shape[:2], np.bool_)
    there = shifted(before.transpose(2, 0, 1), *result.shift).transpose(1, 2, 0) if any(result.shift) else before
    return np.asarray((composed != there).any(axis=2))


def _append(lists: dict[str, list[float]], values: Mapping[str, float]) -> None:
    for name, value in values.items():
        lists.setdefault(name, []).append(value)
