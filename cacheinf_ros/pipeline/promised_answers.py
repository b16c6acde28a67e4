# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Bounded mode: among all ways to answer a frame, it takes the fastest that keeps the promise about decisions.

An answer is held while it stands. Otherwise it is computed: by the cached engine, where that was seen to lose little
and to take less time, else densely (:mod:`cacheinf_ros.pipeline.dense_stream`). Bursts of dense frames in float32, from
the same camera, show what is lost (:mod:`cacheinf_ros.pipeline.answer_holder`). Until a dense backend is prepared, the
engine computes every frame completely.

No answer waits for being judged, nor for trials on its frame: that is done when no frame waits, or before the next one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine import Decoded, Engine, EngineConfig, EngineResult, RemotePeer, Selection
from cacheinf_ros.engine.decisions import BoxDecisions, JudgedAs, Loss, Task, judged_as
from cacheinf_ros.graph import Model
from cacheinf_ros.pipeline.answer_holder import AnswerHolder, LossReport
from cacheinf_ros.pipeline.dense_execution import judging_task
from cacheinf_ros.pipeline.dense_stream import DenseStream, Reader, Turn
from cacheinf_ros.pipeline.engine_trial import SHARE as ENGINE_SHARE
from cacheinf_ros.pipeline.engine_trial import EngineTrial, Way, goes_first
from cacheinf_ros.pipeline.guard import guarded
from cacheinf_ros.pipeline.looking_cost import LookingCost
from cacheinf_ros.pipeline.promise_notes import limits_text, loss_text, untold_text

Image = NDArray[np.uint8]
_log = logging.getLogger(__name__)
_BURSTS_SHARE = 0.1  # share of computing time that judging may add, as long as most frames are computed
_STALE = 2  # bursts since a trial after which its findings may no longer hold
_MOST_PIXELS = 32_768  # of class maps, and values of other outputs: enough to resolve a hundredth


class PromisedAnswers:
    """Answers the frames of one stream within a promise. For one thread at a time.

    Between one :meth:`run` and whatever is asked of it next, :meth:`finish` is to be called.

    Attributes:
        trial: the engine's trial: whether it computes frames between bursts. There is one for the engine alone and one
            for it with a server: the findings of each stay while the other is in use.
        decoded: the decoded answer to the last computed frame, where judging has decoded it already; else None.
        decoding_ms: how long that took, in milliseconds; 0 where it was not decoded.
    """

    def __init__(self, model: Model, engine: Engine, config: EngineConfig, note: Callable[[str, str], None]) -> None:
        """Begin to prepare dense backends in the background.

        Args:
            note: takes the name and text of a diagnostics entry.
        """
        self._trials = {has_server: EngineTrial(has_server=has_server) for has_server in (False, True)}
        self.trial = self._trials[False]
        self._judged = {False: 0, True: 0}  # number of the burst at which each trial was judged
        self.decoded: Decoded | None = None
        self.decoding_ms = 0.0
        self._model = model
        self._engine = engine
        self._max_loss = config.max_loss
        self._quality = (config.max_error, config.max_missed)
        self._note = note
        self._selection = Selection()
        self._task: Task[Any] | None = None
        self._holder: AnswerHolder | None = None
        self._said_guess = self._said_untold = False
        self._looks = LookingCost()
        self._burst_ms = 0.0  # time of judging in this burst, and of trying lower precisions
        self._unjudged: Callable[[], object] | None = None  # what is left to do about the last frame
        self._dense = DenseStream(model, config, note)

    def wait(self) -> None:
        """Wait until the dense backends are prepared."""
        self._dense.wait()

    def close(self, *, waits: bool = True) -> None:
        """Stop the quantisation, which runs in a process of its own; ``waits``: wait for that at most half a second."""
        self._dense.close(waits=waits)

    @property
    def wants_maps(self) -> bool:
        """Whether cache maps are of any use for the next frame."""
        holder = self._holder  # read once: the thread that matches asks, too
        in_burst = holder is None or holder.wants_dense
        by_engine = self.trial.way is Way.CACHED or (in_burst and self.trial.is_on)
        return self._max_loss > 0 and self.trial.reuses and by_engine

    @property
    def measured(self) -> Loss | None:
        """The loss that the last burst showed; None before the first."""
        report = None if self._holder is None else self._holder.report
        return None if report is None else report.measured

    def configure(self, config: EngineConfig) -> None:
        """Take over the promise from a new configuration."""
        if (config.max_loss > 0) != (self._max_loss > 0):
            self.lost()  # the holder does not know answers without a promise
        if config.max_loss != self._max_loss:
            self._dense.withdraw()
        before, self._quality = self._quality, (config.max_error, config.max_missed)
        if self._quality != before:  # the engine holds back more, or less, from now on
            self.engine_changed()
        if self._quality != before or config.max_loss < self._max_loss:
            for trial in self._trials.values():
                trial.distrust()
            if self._holder is not None:
                self._holder.look_soon()
        self._max_loss = config.max_loss
        if self._holder is not None:
            self._holder.promise(self._room)

    def select(self, selection: Selection) -> None:
        """Judge answers by the selection that the user gets; findings about other decisions are forgotten."""
        if selection != self._selection:
            self._selection, self._holder, self._task = selection, None, None
            self._dense.forget()
            for trial in self._trials.values():
                trial.distrust()
                trial.start_anew()

    def stands(self, image: Image) -> bool:
        """Tell whether the last answer stands for the next frame, uint8 [height, width, 3]."""
        self._dense.frame()
        if self._holder is None and self._dense.photographs is not None:
            self._task = judging_task(self._model, self._dense.photographs, _MOST_PIXELS, self._selection)
            self._tell_judged_as(judged_as(self._model.card, self._dense.photographs[0]))
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

    def lost(self, *, is_interrupted: bool = False) -> None:
        """Forget the last answer.

        Args:
            is_interrupted: somebody else has answered frames since, after :meth:`finish`; otherwise a frame failed or
                time went back, and the caller empties the engine's cache.
        """
        self._unjudged = None
        self._burst_ms = 0.0
        self._dense.lost()
        if self._holder is not None:
            self._holder.lost(is_interrupted=is_interrupted)
        for trial in self._trials.values():
            trial.lost(is_interrupted=is_interrupted and self._holder is not None and self._holder.burst_frames > 0)

    def meet(self, *, has_server: bool) -> None:
        """Note whether a server may compute a part of the next frame; if its worth is not known, have a burst soon.

        Sessions come and go: if findings were forgotten each time, hardly anything would ever be known.
        """
        left, trial = self.trial, self._trials[has_server]
        if trial is left:
            return
        self.trial = trial
        if self._holder is None:
            return
        left.lost()
        trial.lost(is_interrupted=self._holder.burst_frames > 0)
        if not trial.is_judged or self._holder.bursts - self._judged[has_server] >= _STALE:
            trial.distrust()
            self._holder.look_soon()
        self._holder.promise(self._room)

    def engine_changed(self) -> None:
        """Try the engine in the next burst, because findings about it no longer hold."""
        for trial in self._trials.values():
            trial.start_anew()

    def run(
        self, image: Image, cache_map: CacheMap | None, matching_ms: float = 0.0, peer: RemotePeer | None = None
    ) -> EngineResult:
        """Compute the frame that was just asked about; where this raises, the engine's cache is empty.

        Args:
            image: uint8 [height, width, 3], BGR; it must not change until :meth:`finish`.
            cache_map: what of the engine's cache is reusable; None: nothing is known.
            matching_ms: how long matching took.
            peer: the server that may compute a part of the frame; None: there is none.
        """
        self.decoded, self.decoding_ms = None, 0.0
        if self._holder is None or self._task is None:
            return self._engine.run(image, None, peer)
        if self._max_loss <= 0:
            return self._dense.in_full_precision(image)
        if self._holder.wants_dense:
            return self._run_in_burst(image, cache_map, matching_ms, peer)
        read = self._reader(image)
        by_engine = self._by_engine(image, cache_map, peer) if self.trial.covers(cache_map) else None
        if by_engine is not None:
            result = by_engine
            if found := self.trial.answered(matching_ms + result.total_ms):
                self._note("cached_engine", found)
            decision = read(result)
        else:
            result, decision = self._dense.between_bursts(image, self._task, read)
            self.trial.computed(result.total_ms)
        self._looks.computed(result.total_ms)
        self._unjudged = partial(self._holder.computed, decision)
        return result

    def finish(self) -> None:
        """Judge the last answer, and try other ways on its frame: when no frame waits, or before the next one.

        A failure is logged, and then everything that is cached is dropped.
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

    def _run_in_burst(
        self, image: Image, cache_map: CacheMap | None, matching_ms: float, peer: RemotePeer | None
    ) -> EngineResult:
        """Answer densely, by the backends in turn; the engine runs beside them where it is on trial.

        The engine runs after the answer unless it is to go first, or shares the frame with a server.
        """
        assert self._holder is not None
        assert self._task is not None
        turn = Turn(frame=self._holder.burst_frames, burst=self._holder.bursts)
        tries = self.trial.is_on
        engine_first = tries and goes_first(turn.frame)

        tried = self._by_engine(image, cache_map, peer) if engine_first else None
        tries = tries and self.trial.is_on
        result, decision = self._dense.in_burst(
            image, self._task, self._reader(image), turn,
            cached=tries and self.trial.reuses, counts=not engine_first,
        )  # fmt: skip
        dense_ms = result.total_ms
        if tries and tried is None and peer is not None:
            tried = self._by_engine(image, cache_map, peer)

        def judge() -> None:
            is_left = tried is None and tries and self.trial.is_on
            by_engine = self._by_engine(image, cache_map, peer) if is_left else tried
            if by_engine is None:
                self.trial.computed(dense_ms)
            else:
                self.trial.compare(matching_ms + by_engine.total_ms, dense_ms, engine_first=engine_first)
            self._judge_frame(image, decision, by_engine)

        self._unjudged = judge
        return result

    def _by_engine(self, image: Image, cache_map: CacheMap | None, peer: RemotePeer | None) -> EngineResult | None:
        """Have the engine compute a frame; where it fails, it is given up for a while, and there is no result."""
        with guarded("computing a frame by the engine") as failure:
            return self.trial.run(self._engine, image, cache_map, peer)
        self._note("cached_engine", f"given up for a while: {failure.reason}")
        self._engine.reset()
        self.trial.give_up()
        return None

    def _judge_frame(self, image: Image, decision: Any, by_engine: EngineResult | None) -> None:
        """Judge a frame of a burst, and after the last frame the whole burst.

        Args:
            decision: what dense execution decides.
            by_engine: the engine's answer, where it ran beside dense execution.
        """
        assert self._holder is not None
        assert self._task is not None
        started = time.perf_counter()
        read = self._unpublished_reader(image)
        self._dense.try_others(image, decision, read)
        tried = None if by_engine is None else read(by_engine)
        report = self._holder.computed(decision, by_engine=tried)
        if report is not None:
            self._judge(report)
        self._burst_ms += 1e3 * (time.perf_counter() - started)
        if report is not None:
            self._holder.space_bursts(self._burst_ms / (_BURSTS_SHARE * self._dense.full_ms))
            self._burst_ms = 0.0

    def _reader(self, image: Image) -> Reader:
        """Return a function that reads what an answer to this frame decides; boxes are decoded once for all uses."""
        task, size = self._task, (image.shape[0], image.shape[1])
        if not isinstance(task, BoxDecisions):
            return self._unpublished_reader(image)

        def read(answer: EngineResult) -> Any:
            started = time.perf_counter()
            decoded = task.decoded(answer.outputs, size, answer.motion)
            self.decoded = task.reported(decoded)
            self.decoding_ms = 1e3 * (time.perf_counter() - started)
            return task.of_boxes(decoded.boxes)

        return read

    def _unpublished_reader(self, image: Image) -> Reader:
        """Return such a reader for answers that the user does not get."""
        task, size = self._task, (image.shape[0], image.shape[1])
        assert task is not None
        return lambda answer: task.read(answer.outputs, size, answer.motion)

    def _judge(self, report: LossReport) -> None:
        """Choose at the end of a burst how frames are computed until the next one."""
        assert self._task is not None
        assert self._holder is not None
        allowed = self._holder.max_loss  # the promise that the burst was judged by
        self._looks.forget()
        self._dense.judge(self._task, self._max_loss, kept=report.kept)
        if found := self.trial.judge(report.engine, self._dense.milliseconds, self._max_loss, report.moved):
            self._note("cached_engine", found)
        if found or not self.trial.is_on:
            self._judged[self.trial is self._trials[True]] = self._holder.bursts
        self._holder.promise(self._room)
        shown = loss_text(report, allowed, self._max_loss)
        self._note("loss", shown)
        self._note("limits", limits_text(report, self._holder.holding, self._holder.scale))
        self._note("bursts", f"{self._holder.bursts}, promise broken in {self._holder.broken}")
        if not report.kept:
            _log.warning("a burst of dense frames shows a loss of %s: limits are tightened", shown)
        if not report.tells and not self._said_untold:
            _log.warning("no answer is held: %s", untold_text(report))
        self._said_untold = not report.tells

    def _tell_judged_as(self, judged: JudgedAs) -> None:
        """Note as what answers are judged; say it in the log, once, where nothing but an output's shape says so."""
        self._note("judged_as", judged.value)
        if judged.is_guess and not self._said_guess:
            self._said_guess = True
            _log.info("answers of %s are judged as %s (docs/models.md)", self._model.name, judged.value)

    @property
    def _room(self) -> float:
        """The loss that holding answers may cause."""
        # frames that the engine does not cover are computed densely, so that either may lose what it is allowed to
        taken = max(ENGINE_SHARE, self._dense.booked) if self.trial.way is Way.CACHED else self._dense.booked
        return self._max_loss * (1 - taken)
