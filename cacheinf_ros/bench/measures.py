# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Everything that is measured of a run of frames except time: errors, agreement, detections, missed change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.bench.answer import Answer
from cacheinf_ros.bench.output_errors import Agreement, ErrorScale, MissedChange
from cacheinf_ros.engine.accuracy import Detections, DetectionScore, score_frame
from cacheinf_ros.sources import SceneTruth

Mask = NDArray[np.bool_]
_STRETCH = 100  # frames


class Comparison:
    """Compares answers with better ones, over frames."""

    def __init__(self, scale: ErrorScale) -> None:
        self._scale = scale
        self._errors: list[float] = []
        self._agreement = Agreement()
        self._detections: DetectionScore | None = None

    def add(self, ours: Answer, better: Answer) -> None:
        """Add a frame."""
        self._errors.append(self._scale.error(ours.values, better.values))
        self._agreement.add(ours.decisions, better.decisions)
        if ours.detections is not None and better.detections is not None:
            score = score_frame(ours.detections, better.detections)
            self._detections = (self._detections or DetectionScore()) + score

    @property
    def error(self) -> dict[str, float] | None:
        """Mean and maximum of the error over frames; None without frames."""
        return mean_and_max(self._errors)

    @property
    def error_over_time(self) -> list[float]:
        """Mean errors over stretches of 100 frames, in order: an error that builds up would show here."""
        starts = range(0, len(self._errors), _STRETCH)
        return [float(np.mean(self._errors[start : start + _STRETCH])) for start in starts]

    @property
    def agreement(self) -> float | None:
        """The share of equal decisions; None where there are none."""
        return self._agreement.value

    @property
    def f1(self) -> float | None:
        """The F1 score of the detections against the better ones; None where the model is not a detector."""
        return None if self._detections is None else self._detections.f1

    def report(self) -> dict[str, Any]:
        """Return all figures for JSON."""
        return {"output_error": self.error, "agreement": self.agreement, "f1": self.f1}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredFrame:
    """The answers that were computed for one frame.

    Attributes:
        ours: the cached engine's answer; like the next one, it has the motion that leads to the frame.
        on_composed: the dense answer to the composed input: the frame where it is active, elsewhere what the cache was
            computed from.
        on_frame: the dense answer to the frame.
        changed: bool [height, width] of the model's input, or of a picture in it: the pixels of the composed input
            that changed.
        refreshed: whether the engine computed everything.
        shift: (dx, dy), by how many pixels of the model's input everything cached was moved for this frame.
    """

    ours: Answer
    on_composed: Answer
    on_frame: Answer
    changed: Mask
    refreshed: bool
    shift: tuple[int, int] = (0, 0)


class Measures:
    """Measures the quality of the engine's answers, frame by frame."""

    def __init__(self, scale: ErrorScale) -> None:
        self._engine, self._matching, self._output, self._flicker = (Comparison(scale) for _ in range(4))
        self._changed = Agreement()
        self._missed = MissedChange(scale)
        self._truth: dict[str, DetectionScore] = {}
        self._stale: Answer | None = None
        self._before: Answer | None = None

    def see(self, frame: MeasuredFrame) -> None:
        """Remember a frame that does not count."""
        if frame.refreshed:
            self.refresh(frame.ours)
        self._before = frame.on_frame

    def add(self, frame: MeasuredFrame, truth: SceneTruth | None = None) -> None:
        """Add a frame; ``truth``: the scene's objects, where the model finds the objects of built-in scenes."""
        if self._stale is not None and frame.shift != (0, 0):
            self._stale = self._stale.shifted(frame.shift)
        self._engine.add(frame.ours, frame.on_composed)
        self._matching.add(frame.on_composed.in_frame, frame.on_frame)
        self._output.add(frame.ours.in_frame, frame.on_frame)
        if self._before is not None:
            self._flicker.add(frame.on_frame, self._before)
        if not frame.refreshed:
            self._changed.add(frame.ours.decisions, frame.on_composed.decisions, frame.changed)
        if not frame.refreshed and self._stale is not None:
            self._missed.add(frame.ours.values, frame.on_composed.values, self._stale.values)
        if truth is not None:
            self._compare(frame, Detections.of_truth(truth))
        self.see(frame)

    def refresh(self, answer: Answer) -> None:
        """Note that the whole cache was computed anew, with this answer."""
        self._stale = answer.copy()

    def report(self) -> dict[str, Any]:
        """Return the figures, by the names of the benchmarks page."""
        return {
            "engine_error": self._engine.error,
            "engine_error_over_time": self._engine.error_over_time,
            "matching_error": self._matching.error,
            "output_error": self._output.error,
            "flicker": self._flicker.error,
            "agreement": {
                "engine": self._engine.agreement,
                "changed": self._changed.value,
                "output": self._output.agreement,
            },
            "missed_change": self._missed.value,
            "f1": {"engine": self._engine.f1, "output": self._output.f1},
            "f1_truth": {name: score.f1 for name, score in self._truth.items()} or None,
        }

    def _compare(self, frame: MeasuredFrame, truth: Detections) -> None:
        for name, answer in (("cached", frame.ours), ("dense", frame.on_frame)):
            if answer.detections is not None:
                score = score_frame(answer.detections, truth)
                self._truth[name] = self._truth.get(name, DetectionScore()) + score


def mean_and_max(values: Sequence[float]) -> dict[str, float] | None:
    """Return the mean and maximum of values; None without values."""
    return {"mean": float(np.mean(values)), "max": float(np.max(values))} if values else None
