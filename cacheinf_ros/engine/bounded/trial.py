"""Runs of a model over a few frames with given thresholds, compared with exact execution."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.bounded.errors import ErrorSum
from cacheinf_ros.engine.config import EngineConfig
from cacheinf_ros.engine.input import InputWriter
from cacheinf_ros.engine.kernels import choose_kernels
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.engine.program import Program
from cacheinf_ros.engine.quality import OutputScale
from cacheinf_ros.engine.truncation import Truncation
from cacheinf_ros.graph import Model

Image = NDArray[np.uint8]
Outputs = list[NDArray[Any]]
_COMPARISON = 0.15  # of what a pixel takes to be computed, for comparing and committing it; measured on ESPNet


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What a run over the frames showed; the first frame, which is computed completely, does not count.

    Attributes:
        engine_error: RMS over the outputs' spread, of all frames together.
        missed_change: of all frames together, against the outputs of the first one.
        milliseconds: of a frame, mean; predicted from the pixels that were computed, which is free of noise.
        active_share: of the FLOPs, mean.
        measured_ms: of a frame, median, by the clock.
    """

    engine_error: float
    missed_change: float
    milliseconds: float
    active_share: float
    measured_ms: float


class TrialEngine:
    """A model compiled for trials on fixed frames."""

    def __init__(self, model: Model, config: EngineConfig, composed: Sequence[Image]) -> None:
        """``composed``: what the cache is to stand for after each frame, uint8 at the model's size."""
        kernels = choose_kernels(config.device, config.threads, config.precision)
        self._frames = composed
        self._input_name = model.graph.input
        with torch.inference_mode():
            self.program = Program(model.graph, kernels)
        self._input = InputWriter(Preprocessor(model.card), self.program.input, kernels)
        self._input.touch_all()
        self.exact = [self.dense(frame) for frame in composed]
        self._microseconds = self._measured()

    @torch.inference_mode()
    def dense(self, composed: Image) -> Outputs:
        """The exact outputs for a frame."""
        self._input.write(composed, self.program.changed_input, everything=True)
        return [value.cpu().numpy().copy() for value in self.program.run(refresh=True).values()]

    @torch.inference_mode()
    def run(self, truncations: Mapping[str, Truncation], scale: OutputScale) -> Trial:
        """Go through the frames with these thresholds."""
        self._input.truncate(truncations.get(self._input_name))
        self.program.truncate({name: t for name, t in truncations.items() if name != self._input_name})
        errors = ErrorSum(scale, self.dense(self._frames[0]))
        predicted, active, measured = [], [], []
        for frame, exact in zip(self._frames[1:], self.exact[1:], strict=True):
            started = time.perf_counter_ns()
            self._input.write(frame, self.program.changed_input, everything=False)
            outputs = self.program.run()
            measured.append((time.perf_counter_ns() - started) / 1e6)
            errors.add([value.cpu().numpy() for value in outputs.values()], exact)
            active.append(self.program.active_share)
            predicted.append(self._predicted(truncations))
        return Trial(
            engine_error=errors.engine_error,
            missed_change=errors.missed_change,
            milliseconds=float(np.mean(predicted)),
            active_share=float(np.mean(active)),
            measured_ms=float(np.median(measured)),
        )

    def _predicted(self, truncations: Mapping[str, Truncation]) -> float:
        """Milliseconds of the last run, from the pixels that each operator computed."""
        shares = self.program.active_shares
        comparison = {name: _COMPARISON for name in truncations}
        return sum((1 + comparison.get(n, 0)) * took * shares[n] for n, took in self._microseconds.items()) / 1e3

    def _measured(self) -> dict[str, float]:
        """By operator's output: microseconds of a dense frame."""
        runs = []
        for _ in range(3):
            self.dense(self._frames[0])
            runs.append(self.program.microseconds)
        return {name: min(run[name] for run in runs) for name in runs[0]}
