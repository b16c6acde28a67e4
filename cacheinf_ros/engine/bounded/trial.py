# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Runs of a model over a few frames with given thresholds, compared with exact execution."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.bounded.error_sum import ErrorSum, mean_squares
from cacheinf_ros.engine.caching import EVERYTHING, Caching
from cacheinf_ros.engine.delta_threshold import Criterion, DeltaThreshold
from cacheinf_ros.engine.engine_config import EngineConfig
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.engine.program import Program
from cacheinf_ros.engine.quality import OutputScale
from cacheinf_ros.engine.quantisation import executed_model
from cacheinf_ros.graph import Model

Image = NDArray[np.uint8]
Outputs = list[NDArray[Any]]
_MEASUREMENTS = 3  # of the time of each operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The result of a run over the frames; the first frame, which is computed completely, does not count.

    Attributes:
        engine_error: RMS over the outputs' deviation, of all frames together.
        missed_change: the missed share of the change since the first frame, of all frames together.
        milliseconds: mean time of a frame, predicted from the pixels that were computed, which is free of noise.
        active_share: mean share of the FLOPs that were computed.
        measured_ms: median time of a frame by the clock.
    """

    engine_error: float
    missed_change: float
    milliseconds: float
    active_share: float
    measured_ms: float


class TrialEngine:
    """A model compiled for trials on fixed frames.

    Attributes:
        exact: the exact outputs, by frame.
        computed: the tensors whose changes can be held back, beside the input: those that are kept.
        microseconds: the time of each operator for all pixels, by criterion (None: not compared) and operator's output.
    """

    def __init__(
        self,
        model: Model,
        config: EngineConfig,
        composed: Sequence[Image],
        criteria: Sequence[Criterion] = (Criterion.ENERGY, Criterion.POOLED_ENERGY),
        caching: Caching = EVERYTHING,
        between: Callable[[], None] = lambda: None,
        microseconds: Mapping[Criterion | None, Mapping[str, float]] | None = None,
    ) -> None:
        """Compile the model, compute the exact outputs of the frames, and measure the operators.

        Args:
            composed: what the cache is to stand for after each frame, uint8 at the model's size.
            criteria: the criteria that trials may use.
            caching: what the engine will keep between frames.
            between: called before each frame; what it raises ends the trial.
            microseconds: the operators' times, where they are known.
        """
        executed, backend = executed_model(model, config)
        self._frames = composed
        self._between = between
        self._input_name = model.graph.input
        with torch.inference_mode():
            self.program = Program(executed.graph, backend, caching)
        self._input = backend.input(Preprocessor(model.card), self.program.input)
        self._input.touch_all()
        self.exact = [self.dense(frame) for frame in composed]
        self._changes = [mean_squares(self.exact[0], exact) for exact in self.exact[1:]]
        self.computed = [name for name in self.program.kept if name in model.graph.tensors]
        self.microseconds = microseconds or self._measured(criteria)

    @torch.inference_mode()
    def dense(self, composed: Image) -> Outputs:
        """Compute the exact outputs for a frame."""
        outputs = self._run_all(composed, refresh=True).values()
        return [np.copy(value.cpu().numpy()) for value in outputs]  # unlike the method copy, keeps the memory layout

    @torch.inference_mode()
    def trial(self, thresholds: Mapping[str, DeltaThreshold], scale: OutputScale) -> Trial:
        """Run all frames with these thresholds, and compare the outputs with the exact ones."""
        self._input.set_threshold(thresholds.get(self._input_name))
        self.program.set_thresholds({name: t for name, t in thresholds.items() if name != self._input_name})
        self._run_all(self._frames[0], refresh=True)
        errors = ErrorSum(scale)
        predicted, active, measured = [], [], []
        for frame, exact, change in zip(self._frames[1:], self.exact[1:], self._changes, strict=True):
            self._between()
            started = time.perf_counter_ns()
            self._input.write(frame, self.program.changed_input, everything=False)
            outputs = self.program.execute()
            measured.append((time.perf_counter_ns() - started) / 1e6)
            errors.add_squares(mean_squares([value.cpu().numpy() for value in outputs.values()], exact), change)
            active.append(self.program.active_share)
            predicted.append(self._predicted(thresholds))
        return Trial(
            engine_error=errors.engine_error,
            missed_change=errors.missed_change,
            milliseconds=float(np.mean(predicted)),
            active_share=float(np.mean(active)),
            measured_ms=float(np.median(measured)),
        )

    @torch.inference_mode()
    def _run_all(self, composed: Image, *, refresh: bool) -> Mapping[str, torch.Tensor]:
        """Run a frame whose pixels all count as changed; outputs are valid until the next run."""
        self._between()
        self._input.write(composed, self.program.changed_input, everything=True)
        return self.program.execute(refresh=refresh)

    def _predicted(self, thresholds: Mapping[str, DeltaThreshold]) -> float:
        """Predict the milliseconds of the last run from the pixels that each operator computed and compared."""
        criteria = {name: delta.criterion for name, delta in thresholds.items()}
        shares = self.program.profile.active_shares.items()
        return sum(self.microseconds[criteria.get(name)][name] * share for name, share in shares) / 1e3

    def _measured(self, criteria: Sequence[Criterion]) -> dict[Criterion | None, dict[str, float]]:
        """Measure each operator's microseconds for all pixels, by criterion (None: not compared) and operator's output.

        All pixels are compared and passed on. Holding them back by :attr:`Criterion.MAXIMUM`, which stops at the first
        large change, would take a bit longer.
        """
        least: dict[Criterion | None, dict[str, float]] = {}
        for criterion in _MEASUREMENTS * (None, *criteria):  # in turn: other work on the machine comes and goes
            everything = (
                {n: DeltaThreshold(threshold=-1, criterion=criterion) for n in self.computed} if criterion else {}
            )
            self.program.set_thresholds(everything)
            self._run_all(self._frames[0], refresh=not everything)
            took = self.program.profile.microseconds
            known = least.get(criterion, took)
            least[criterion] = {name: min(known[name], microseconds) for name, microseconds in took.items()}
        return least
