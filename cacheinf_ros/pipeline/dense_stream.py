# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""One stream's dense frames: in float32, or in a lower precision where that keeps the promise.

Bursts are computed in float32, by its backends in turn, and show what those of lower precision lose
(:mod:`cacheinf_ros.pipeline.lower_precision`). While nothing is to be seen, one of lower precision keeps a lookout
(:mod:`cacheinf_ros.pipeline.quiet_stretch`). For a model that is computed in int8 by its own scales, as some variants
in catalogs are, int8 takes the place of float32, and there is nothing lower.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine import DensePrecision, EngineConfig, EngineResult
from cacheinf_ros.engine.decisions import Task
from cacheinf_ros.engine.dense_backends import DenseBackend
from cacheinf_ros.graph import Model
from cacheinf_ros.pipeline.backend_ranking import BackendRanking
from cacheinf_ros.pipeline.background_pace import BackgroundPace
from cacheinf_ros.pipeline.background_quantiser import BackgroundQuantiser
from cacheinf_ros.pipeline.background_thread import start_background
from cacheinf_ros.pipeline.dense_execution import (
    AllOutputs,
    answers_to_photographs,
    compute_densely,
    full_precision_backends,
    half_precision_backends,
    may_quantise,
)
from cacheinf_ros.pipeline.guard import Told, guarded
from cacheinf_ros.pipeline.health import PREPARING
from cacheinf_ros.pipeline.lower_precision import LowerPrecision
from cacheinf_ros.pipeline.promise_notes import backend_text
from cacheinf_ros.pipeline.quiet_stretch import QuietStretch

Image = NDArray[np.uint8]
Reader = Callable[[EngineResult], Any]
"""A function that tells what an answer decides."""
_STOP_S = 0.5
_LOOK_S = 0.2  # between two looks whether the stream was closed, while another one prepares
_PREPARING = threading.Lock()
"""Held while backends are prepared, which happens for one stream of the process at a time.

OpenVINO's first use in two threads at once stops the whole process: one holds the interpreter and waits for what the
other one initialises, which waits for the interpreter. Neither does torch export two networks at once, and backends are
chosen by their times, which other work in the same process distorts.
"""
_GIVEN_UP = "%s is given up, as it failed on a frame"


class Turn(NamedTuple):
    """The number of a frame in its burst, and the number of that burst."""

    frame: int
    burst: int


class DenseStream:
    """Computes frames densely, uint8 [height, width, 3]. For one thread at a time; backends are prepared in another.

    Attributes:
        photographs: the float32 outputs for photographs; None until backends are prepared, and where none could be.
    """

    def __init__(self, model: Model, config: EngineConfig, note: Callable[[str, str], None]) -> None:
        """Begin to prepare the backends in a thread.

        Args:
            note: takes the name and text of a diagnostics entry.
        """
        self.photographs: Sequence[AllOutputs] | None = None
        self._model = model
        self._note = note
        self._ranking: BackendRanking | None = None  # of the float32 backends
        self._lower = LowerPrecision()
        self._quiet = QuietStretch()
        self._quantiser: BackgroundQuantiser | None = None
        self._closing = threading.Event()
        self._pace = BackgroundPace(config.threads, "preparing dense backends")
        note("dense_backend", PREPARING)
        self._preparing = start_background(self, partial(self._prepare, config), "dense backend", self._closing)

    def wait(self) -> None:
        """Wait until the backends are prepared."""
        self._preparing.join()
        if self._quantiser is not None:
            self._quantiser.wait()

    def frame(self) -> None:
        """Take note that a frame has come, in whatever way it is computed."""
        self._pace.frame()

    def close(self, *, waits: bool = True) -> None:
        """Stop the quantisation, which runs in a process of its own; ``waits``: wait for that at most half a second."""
        self._closing.set()
        if self._quantiser is not None:
            self._quantiser.stop(_STOP_S if waits else 0.0)

    @property
    def full_ms(self) -> float:
        """The time of a frame in float32, in milliseconds."""
        return self._of_float32.best.milliseconds

    @property
    def milliseconds(self) -> float:
        """The time of a frame between bursts, in milliseconds."""
        return self.full_ms if self._lower.chosen is None else self._lower.milliseconds

    @property
    def booked(self) -> float:
        """The share of the promise that the precision used between bursts uses up."""
        return self._lower.booked

    def withdraw(self) -> None:
        """Compute in float32 until the next burst, because the promise has changed."""
        self._lower.withdraw()
        self._tell()

    def forget(self) -> None:
        """Forget what was found out about precisions and times, because other decisions count from now on."""
        if self._ranking is not None:
            self._ranking.forget()
        self._lower.forget()
        self._quiet.forget()
        self._tell()

    def lost(self) -> None:
        """Start the current burst over, because the stream began anew."""
        self._lower.lost()
        self._quiet.forget()
        if self._quantiser is not None:
            self._quantiser.lost()

    def in_full_precision(self, image: Image) -> EngineResult:
        """Compute a frame by the fastest float32 backend."""
        backend, result = self._in_float32(image, lambda: self._of_float32.best)
        self._of_float32.took(backend, result.total_ms)
        if self._of_float32.look_again():
            self._tell()
        return result

    def in_burst(
        self, image: Image, task: Task[Any], read: Reader, turn: Turn, *, cached: bool, counts: bool
    ) -> tuple[EngineResult, Any]:
        """Compute a frame of a burst by the float32 backend whose turn it is, and tell what it decides.

        Args:
            cached: whether the engine's cache holds the frame as well.
            counts: whether the time counts; it does not where another engine computed the frame before, because the
                second one finds threads awake and weights in the processor's cache.
        """
        backend, result = self._in_float32(
            image, lambda: self._of_float32.in_turn(turn.frame, turn.burst), cached=cached
        )
        decision = read(result)
        self._shows_something(decision, task)
        if counts:
            self._of_float32.took(backend, result.total_ms)
        return result, decision

    def between_bursts(self, image: Image, task: Task[Any], read: Reader) -> tuple[EngineResult, Any]:
        """Compute a frame, and tell what it decides.

        While nothing is to be seen, a lower precision first looks whether that is still so.
        """
        lookout = self._lower.lookout if self._quiet.is_on and self._lower.chosen is None else None
        seen = None if lookout is None else self._in_lower_precision(image, lookout)
        if seen is None:
            result = self._by_chosen(image)
            decision = read(result)
            self._shows_something(decision, task)
            return result, decision
        decision = read(seen)
        if not self._shows_something(decision, task):
            return seen, decision
        result = self._by_chosen(image)
        stages = {**result.stage_ms, "compute": result.stage_ms["compute"] + seen.total_ms}
        return replace(result, stage_ms=stages), read(result)

    def try_others(self, image: Image, decision: Any, read: Reader) -> None:
        """Try a lower precision on a frame of a burst.

        Args:
            decision: what float32 decides.
            read: tells what another answer to this frame decides.
        """

        def answer(backend: DenseBackend) -> tuple[Any, float]:
            result = self._compute(image, backend)
            return read(result), result.total_ms

        self._lower.compare(decision, answer)
        if self._quantiser is not None:
            self._quantiser.see(image)

    def judge(self, task: Task[Any], max_loss: float, *, kept: bool) -> None:
        """Choose backend and precision at the end of a burst.

        Args:
            max_loss: the promised loss.
            kept: whether held answers kept the promise.
        """
        self._of_float32.rank()
        self._lower.judge(task, max_loss, self.full_ms, kept=kept)
        self._tell()
        if self._quantiser is not None:
            self._quantiser.end_burst(
                shows_something=self._lower.showed_something,
                is_wanted=not self._lower.loses_little(DensePrecision.INT8),
            )

    @property
    def _of_float32(self) -> BackendRanking:
        assert self._ranking is not None
        return self._ranking

    def _shows_something(self, decision: Any, task: Task[Any]) -> bool:
        """Note whether anything is seen in a frame, and return that."""
        seen = bool(task.presence(decision))
        self._quiet.computed(is_empty=not seen)
        return seen

    def _by_chosen(self, image: Image) -> EngineResult:
        """Compute a frame by the fastest backend of the chosen precision."""
        chosen = self._lower.chosen
        result = None if chosen is None else self._in_lower_precision(image, chosen)
        return self.in_full_precision(image) if result is None else result

    def _in_float32(
        self, image: Image, choose: Callable[[], DenseBackend], *, cached: bool = False
    ) -> tuple[DenseBackend, EngineResult]:
        """Compute a frame by the backend that ``choose`` returns; a failing one is given up where there is another."""
        while True:
            backend = choose()
            with guarded(_GIVEN_UP % backend.name) as failure:
                return backend, self._compute(image, backend, cached=cached)
            if not self._of_float32.drop(backend):
                raise Told(failure.reason)
            self._tell()

    def _in_lower_precision(self, image: Image, backend: DenseBackend) -> EngineResult | None:
        """Compute a frame by a backend of lower precision; returns None where that fails, and gives the backend up."""
        with guarded(_GIVEN_UP % backend.name):
            return self._compute(image, backend)
        self._lower.drop(backend)
        self._tell()
        return None

    def _compute(self, image: Image, backend: DenseBackend, *, cached: bool = False) -> EngineResult:
        return compute_densely(self._model, backend, image, cached=cached)

    def _tell(self) -> None:
        if self._ranking is not None:
            self._note("dense_backend", backend_text(self._ranking.best, self._lower))

    def _prepare(self, config: EngineConfig) -> None:
        """Prepare the backends, unless the stream was closed before its turn came."""
        while not _PREPARING.acquire(timeout=_LOOK_S):
            if self._closing.is_set():
                return
        try:
            if not self._closing.is_set():
                self._pace.begin()
                self._prepare_backends(config)
        finally:
            _PREPARING.release()

    def _prepare_backends(self, config: EngineConfig) -> None:
        """Prepare them; the float32 answers to photographs put them into use, and lower precisions follow.

        Once the stream is closed the rest is left out, as other streams wait for their turn.
        """
        with guarded("preparing a dense backend for bounded mode") as failure:
            self._ranking = BackendRanking(full_precision_backends(self._model, config, self._goes_on))
            photographs = answers_to_photographs(self._model, self._ranking.best)
            self.photographs = photographs
        if self._closing.is_set():
            return
        if failure:
            self._note("dense_backend", f"every frame is computed completely by the engine: {failure.reason}")
            return
        with guarded("frames are not computed in a lower precision"):
            best = self._ranking.best
            if may_quantise(self._model, config):
                self._quantiser = BackgroundQuantiser(self._model, config.threads, best, self._lower.offer)
                if self._closing.is_set():  # meanwhile, by a thread that saw no quantiser to stop
                    self._quantiser.stop(0.0)
                    return
            for backend in half_precision_backends(self._model, config, best, photographs, self._goes_on):
                self._lower.offer(backend)
        if not self._closing.is_set():
            self._tell()

    def _goes_on(self) -> bool:
        """Rest where that is due, while which other streams may prepare theirs, and tell whether to go on."""
        if self._pace.must_rest():
            _PREPARING.release()
            try:
                self._pace.rest(self._closing)
            finally:
                _PREPARING.acquire()
            self._pace.begin()
        return not self._closing.is_set()
