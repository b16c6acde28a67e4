# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Bounded mode: of all ways to answer a frame, the fastest that keeps the promise about decisions.

An answer is held while it stands; else it is computed, by the cached engine where its own answers were seen to lose
little and to take less time, by the fastest dense backend where not, in a lower precision where the same is true of
that (:mod:`cacheinf_ros.pipeline.lower_precision`) or where there is nothing to be seen
(:mod:`cacheinf_ros.pipeline.quiet_stretch`). Bursts of dense frames in float32, of the same camera, show
what is lost (:mod:`cacheinf_ros.pipeline.answer_holder`). Until a dense backend is prepared, every frame is computed
completely by the engine.

No answer waits for being judged, nor for what is tried on its frame: that is done when no frame waits, or before the
next one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine import Decoded, DensePrecision, Engine, EngineConfig, EngineResult, RemotePeer, Selection
from cacheinf_ros.engine.decisions import BoxDecisions, Loss, Task
from cacheinf_ros.engine.dense_backends import DenseBackend
from cacheinf_ros.graph import Model
from cacheinf_ros.pipeline.answer_holder import AnswerHolder, LossReport
from cacheinf_ros.pipeline.backend_ranking import BackendRanking
from cacheinf_ros.pipeline.background_quantiser import BackgroundQuantiser
from cacheinf_ros.pipeline.background_thread import start_background
from cacheinf_ros.pipeline.dense_execution import (
    answers_to_photographs,
    compute_densely,
    full_precision_backends,
    half_precision_backends,
    may_quantise,
    task_maker,
)
from cacheinf_ros.pipeline.engine_trial import SHARE as ENGINE_SHARE
from cacheinf_ros.pipeline.engine_trial import EngineTrial, Way, goes_first
from cacheinf_ros.pipeline.guard import guarded
from cacheinf_ros.pipeline.health import PREPARING
from cacheinf_ros.pipeline.looking_cost import LookingCost
from cacheinf_ros.pipeline.lower_precision import LowerPrecision
from cacheinf_ros.pipeline.promise_notes import backend_text, limits_text, loss_text
from cacheinf_ros.pipeline.quiet_stretch import QuietStretch

Image = NDArray[np.uint8]
_log = logging.getLogger(__name__)
_BURSTS_SHARE = 0.1  # of computing time that judging may add, as long as most frames are computed
_MOST_PIXELS = 32_768  # of class maps: enough to tell a hundredth
_STOP_S = 0.5


class PromisedAnswers:
    """One stream's answers within a promise. For one thread at a time; the dense backend is prepared in another.

    Between one :meth:`run` and whatever is asked of it next, :meth:`finish` is to be called.

    Attributes:
        trial: of the engine: whether it computes frames between bursts.
        decoded: what the user gets of the last frame that was computed, where judging it has found that too.
    """

    def __init__(self, model: Model, engine: Engine, config: EngineConfig, note: Callable[[str, str], None]) -> None:
        """Begin to prepare the dense backend.

        Args:
            note: takes names and texts for diagnostics.
        """
        self.trial = EngineTrial()
        self.decoded: Decoded | None = None
        self._model = model
        self._engine = engine
        self._max_loss = config.max_loss
        self._note = note
        self._ranking: BackendRanking | None = None  # of float32; None: being prepared
        self._lower = LowerPrecision()
        self._quiet = QuietStretch()
        self._quantiser: BackgroundQuantiser | None = None
        self._task_for: Callable[..., Task[Any]] | None = None  # a selection; None: not known yet
        self._selection = Selection()
        self._task: Task[Any] | None = None
        self._holder: AnswerHolder | None = None
        self._looks = LookingCost()
        self._burst_ms = 0.0  # what judging takes in a burst, and trying lower precisions
        self._unjudged: Callable[[], object] | None = None  # what is left to do about the last frame
        note("dense_backend", PREPARING)
        self._preparing = start_background(self, partial(self._prepare, config), "dense backend")

    def wait(self) -> None:
        """Wait until the dense backends are prepared."""
        self._preparing.join()
        if self._quantiser is not None:
            self._quantiser.wait()

    def close(self) -> None:
        """End what is being prepared in a process of its own, and wait a moment for that."""
        if self._quantiser is not None:
            self._quantiser.stop(_STOP_S)

    @property
    def wants_maps(self) -> bool:
        """Whether cache maps are any use for the next frame."""
        in_burst = self._holder is None or self._holder.wants_dense
        return self.trial.reuses and (self.trial.way is Way.CACHED or (in_burst and self.trial.is_on))

    @property
    def measured(self) -> Loss | None:
        """The loss that the last burst showed; None before there was one."""
        report = None if self._holder is None else self._holder.report
        return None if report is None else report.measured

    def configure(self, config: EngineConfig) -> None:
        """Take over the promise."""
        if (config.max_loss > 0) != (self._max_loss > 0):
            self.lost()  # answers without a promise are none that the holder knows of
        if config.max_loss != self._max_loss:
            self._lower.withdraw()
        self._max_loss = config.max_loss
        if self._holder is not None:
            self._holder.promise(self._room)

    def select(self, selection: Selection) -> None:
        """Judge answers by what the user gets of them; what was found out about other decisions is forgotten."""
        if selection != self._selection:
            self._selection, self._holder, self._task = selection, None, None
            if self._ranking is not None:
                self._ranking.forget()
            self._lower.forget()
            self._quiet.forget()

    def stands(self, image: Image) -> bool:
        """Whether the last answer stands for the next frame, uint8 [height, width, 3]."""
        if self._holder is None and self._task_for is not None:
            self._task = self._task_for(selection=self._selection)
            self._holder = AnswerHolder(self._task, self._model.input_size, self._room)
        if self._holder is None or self._max_loss <= 0:
            return False
        started = time.perf_counter()
        stands = self._holder.stands(image)
        if not self._holder.wants_dense and self._holder.holding.limit is not None:
            self._looks.looked(1e3 * (time.perf_counter() - started), stands=stands)
            if not self._looks.pays:
                self._holder.rest()
                self._looks.forget()
        return stands

    def lost(self) -> None:
        """There is no last answer any more: a frame failed, or time went back; the engine's cache is to be empty."""
        self._unjudged = None
        self._burst_ms = 0.0
        self._lower.lost()
        self._quiet.forget()
        if self._quantiser is not None:
            self._quantiser.lost()
        if self._holder is not None:
            self._holder.lost()

    def meet(self, *, has_server: bool) -> None:
        """Note whether a server may compute a part of the next frame; where that is new, look soon what it is worth."""
        if self.trial.meet(has_server=has_server) and self._holder is not None:
            self._holder.look_soon()

    def run(
        self, image: Image, cache_map: CacheMap | None, matching_ms: float = 0.0, peer: RemotePeer | None = None
    ) -> EngineResult:
        """Compute the frame that was just asked about; where this raises, the engine's cache is empty.

        Args:
            image: uint8 [height, width, 3], BGR; it must not change until :meth:`finish`.
            cache_map: what of the engine's cache is reusable; None: nothing is known.
            matching_ms: what it took to find out.
            peer: the server that may compute a part of it.
        """
        self.decoded = None
        if self._holder is None or self._task is None:
            return self._engine.run(image, None, peer)
        if self._max_loss <= 0:
            return self._dense(image, self._dense_backends.best)
        if self._holder.wants_dense:
            return self._run_in_burst(image, cache_map, matching_ms, peer)
        if self.trial.covers(cache_map):
            result = self.trial.run(self._engine, image, cache_map, peer)
            if found := self.trial.answered(matching_ms + _milliseconds(result)):
                self._note("cached_engine", found)
            decision = self._read(result, (image.shape[0], image.shape[1]))
        else:
            result, decision = self._run_densely(image)
        self._looks.computed(_milliseconds(result))
        self._unjudged = partial(self._holder.computed, decision)
        return result

    def finish(self) -> None:
        """Judge the last answer, and try other ways on its frame: when no frame waits, or before the next one.

        Whatever fails is logged, and forgotten with all that was cached.
        """
        unjudged, self._unjudged = self._unjudged, None
        if unjudged is None:
            return
        with guarded("judging an answer of bounded mode") as failure:
            unjudged()
        if failure:
            self._engine.reset()
            self.lost()
            self._note("judging", failure.reason)

    @property
    def _dense_backends(self) -> BackendRanking:
        assert self._ranking is not None
        return self._ranking

    def _run_densely(self, image: Image) -> tuple[EngineResult, Any]:
        """Compute a frame between bursts; while nothing is seen, a lower precision looks first whether that is so.

        Returns:
            outputs, and what they decide.
        """
        assert self._task is not None
        lookout = self._lower.lookout if self._quiet.is_on and self._lower.chosen is None else None
        if lookout is None:
            result, decision = self._run_by_chosen(image)
            self._quiet.computed(is_empty=not self._task.presence(decision))
            return result, decision
        result = self._dense(image, lookout)
        decision, looked_ms = self._read(result, (image.shape[0], image.shape[1])), _milliseconds(result)
        is_empty = not self._task.presence(decision)
        self._quiet.computed(is_empty=is_empty)
        if is_empty:
            self.trial.computed(looked_ms)
            return result, decision
        result, decision = self._run_by_chosen(image)
        stages = {**result.stage_ms, "compute": result.stage_ms["compute"] + looked_ms}
        return replace(result, stage_ms=stages), decision

    def _run_by_chosen(self, image: Image) -> tuple[EngineResult, Any]:
        """Compute a frame by the fastest dense backend of the precision that was chosen."""
        if self._lower.chosen is not None:
            result = self._dense(image, self._lower.chosen)
        else:
            ranking = self._dense_backends
            backend = ranking.best
            result = self._dense(image, backend)
            ranking.took(backend, _milliseconds(result))
            if ranking.look_again():
                self._note("dense_backend", self._backend_text())
        self.trial.computed(_milliseconds(result))
        return result, self._read(result, (image.shape[0], image.shape[1]))

    def _run_in_burst(
        self, image: Image, cache_map: CacheMap | None, matching_ms: float, peer: RemotePeer | None
    ) -> EngineResult:
        """Answer densely, by the backends in turn; the engine runs beside them where it is on trial.

        It runs behind the answer unless it is to go first, or shares the frame with a server.
        """
        assert self._holder is not None
        assert self._task is not None
        size = (image.shape[0], image.shape[1])
        backend = self._dense_backends.in_turn(self._holder.burst_frames, self._holder.bursts)
        tries = self.trial.is_on
        engine_first = tries and goes_first(self._holder.burst_frames)

        def try_engine() -> EngineResult:
            return self.trial.run(self._engine, image, cache_map, peer)

        tried = try_engine() if engine_first else None
        result = self._dense(image, backend, cached=tries and self.trial.reuses)
        if tries and tried is None and peer is not None:
            tried = try_engine()
        decision, dense_ms = self._read(result, size), _milliseconds(result)
        self._quiet.computed(is_empty=not self._task.presence(decision))
        if not engine_first:
            self._dense_backends.took(backend, dense_ms)

        def judge() -> None:
            by_engine = tried if tried is not None or not tries else try_engine()
            if by_engine is None:
                self.trial.computed(dense_ms)
            else:
                self.trial.compare(matching_ms + _milliseconds(by_engine), dense_ms, engine_first=engine_first)
            self._judge_frame(image, decision, by_engine)

        self._unjudged = judge
        return result

    def _judge_frame(self, image: Image, decision: Any, by_engine: EngineResult | None) -> None:
        """Judge a frame of a burst, and at its end all of it.

        Args:
            decision: of dense execution.
            by_engine: the engine's answer, where it ran beside it.
        """
        assert self._holder is not None
        assert self._task is not None
        started = time.perf_counter()
        self._lower.compare(decision, lambda other: self._decided(image, other))
        if self._quantiser is not None:
            self._quantiser.see(image)
        tried = None
        if by_engine is not None:
            tried = self._task.read(by_engine.outputs, (image.shape[0], image.shape[1]), by_engine.motion)
        report = self._holder.computed(decision, by_engine=tried)
        if report is not None:
            self._judge(report)
        self._burst_ms += 1e3 * (time.perf_counter() - started)
        if report is not None:
            self._holder.space_bursts(self._burst_ms / (_BURSTS_SHARE * self._dense_backends.best.milliseconds))
            self._burst_ms = 0.0

    def _read(self, answer: EngineResult, size: tuple[int, int]) -> Any:
        """What an answer decides; boxes are decoded once, for the user as well."""
        assert self._task is not None
        if not isinstance(self._task, BoxDecisions):
            return self._task.read(answer.outputs, size, answer.motion)
        decoded = self._task.decoded(answer.outputs, size, answer.motion)
        self.decoded = self._task.reported(decoded)
        return self._task.of_boxes(decoded.boxes)

    def _dense(self, image: Image, backend: DenseBackend, *, cached: bool = False) -> EngineResult:
        return compute_densely(self._model, backend, image, cached=cached)

    def _decided(self, image: Image, backend: DenseBackend) -> tuple[Any, float]:
        """What a backend decides on a frame, and the milliseconds that its outputs took."""
        assert self._task is not None
        result = self._dense(image, backend)
        return self._task.read(result.outputs, (image.shape[0], image.shape[1])), _milliseconds(result)

    def _judge(self, report: LossReport) -> None:
        """Choose backend and way until the next burst."""
        assert self._task is not None
        self._looks.forget()
        self._dense_backends.rank()
        dense_ms = self._dense_backends.best.milliseconds
        self._lower.judge(self._task, self._max_loss, dense_ms, kept=report.kept)
        self._note("dense_backend", self._backend_text())
        if self._quantiser is not None:
            self._quantiser.end_burst(
                shows_something=self._lower.showed_something,
                is_wanted=not self._lower.loses_little(DensePrecision.INT8),
            )
        if self._lower.chosen is not None:
            dense_ms = self._lower.milliseconds
        if found := self.trial.judge(report.engine, dense_ms, self._max_loss, report.moved):
            self._note("cached_engine", found)
        assert self._holder is not None
        self._holder.promise(self._room)
        self._note("loss", loss_text(report, self._max_loss))
        self._note("limits", limits_text(report, self._holder.scale))
        self._note("bursts", f"{self._holder.bursts}, promise broken in {self._holder.broken}")
        if not report.kept:
            _log.warning(
                "a burst of dense frames shows a loss of %s: limits are tightened", loss_text(report, self._max_loss)
            )

    @property
    def _room(self) -> float:
        """What holding answers may cost."""
        return self._max_loss * (1 - (ENGINE_SHARE if self.trial.way is Way.CACHED else self._lower.booked))

    def _backend_text(self) -> str:
        return backend_text(self._dense_backends.best, self._lower)

    def _prepare(self, config: EngineConfig) -> None:
        """Prepare the dense backends, and last of all what answers are judged by: with that they come into use."""
        with guarded("preparing a dense backend for bounded mode") as failure:
            self._ranking = BackendRanking(full_precision_backends(self._model, config))
            photographs = answers_to_photographs(self._model, self._ranking.best)
            self._task_for = task_maker(self._model, photographs, _MOST_PIXELS)
        if failure:
            self._note("dense_backend", f"every frame is computed completely by the engine: {failure.reason}")
            return
        with guarded("frames are not computed in a lower precision"):
            best = self._ranking.best
            if may_quantise(config):
                self._quantiser = BackgroundQuantiser(self._model, config.threads, best, self._lower.offer)
            for backend in half_precision_backends(self._model, config, best, photographs):
                self._lower.offer(backend)
        self._note("dense_backend", self._backend_text())


def _milliseconds(result: EngineResult) -> float:
    return sum(result.stage_ms.values())
