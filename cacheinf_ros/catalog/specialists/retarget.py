# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Makes a specialist for the classes that dominate now: the work of MCDNN's background specialiser, section 5.2.1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cacheinf_ros.catalog.features import TrainingSet
from cacheinf_ros.catalog.linear import Classes, LinearFit
from cacheinf_ros.catalog.specialists.dominance import Dominance
from cacheinf_ros.catalog.specialists.specialist import Specialist, TensorReplicas, Trial, calibrate

_FEWEST_SAMPLES = 8  # of a class, to learn it and as many again to judge what was learned
_OTHERS = 0.05  # "other" is learned as if it made up at least so much of the stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """No specialist.

    Attributes:
        why: for the user.
    """

    why: str


class Retargeting:
    """Trains a last layer on features that were computed before, in steps of milliseconds.

    It shares nothing with other threads: one may run it while frames are answered in another.
    """

    def __init__(
        self,
        samples: TrainingSet,
        dominance: Dominance,
        *,
        small_ms: float,
        generic_ms: float,
        least_saving: float = 0.05,
    ) -> None:
        """Begin.

        Args:
            samples: of the small trunk that the specialist will have.
            dominance: what to specialise to.
            small_ms, generic_ms: what a frame takes with the trunk, and with the generic model.
            least_saving: share of the generic model's time that must be saved to be worth it.
        """
        self._samples, self._dominance = samples, dominance
        self._small_ms, self._generic_ms, self._least_saving = small_ms, generic_ms, least_saving
        self._targets = targets(samples.labels, dominance)
        self._fit: LinearFit | None = None
        self.outcome: Specialist | Rejected | None = self._obstacle()

    def step(self) -> bool:
        """A few milliseconds of work; True when :attr:`outcome` is there."""
        if self.outcome is not None:
            return True
        training = ~self._samples.held_out
        if self._fit is None:
            weights = stream_weights(self._targets[training], self._dominance, least_others=_OTHERS)
            features, known = self._samples.features[training], len(self._dominance.classes)
            self._fit = LinearFit(features, self._targets[training], known + 1, weights)
        elif self._fit.step():
            self.outcome = self._judged(self._fit)
        return self.outcome is not None

    def run(self, cancelled: Callable[[], bool] = lambda: False) -> Specialist | Rejected | None:
        """All steps; None when cancelled in between."""
        while not self.step():
            if cancelled():
                return None
        return self.outcome

    def _obstacle(self) -> Rejected | None:
        if self._small_ms >= self._generic_ms:
            return Rejected(why=f"the small variant takes {self._small_ms:.1f} ms, the model {self._generic_ms:.1f}")
        for held_out in (False, True):
            seen = self._targets[self._samples.held_out == held_out]
            for output, class_id in enumerate((*self._dominance.classes, "other")):
                if int((seen == output).sum()) < _FEWEST_SAMPLES:
                    use = "judge by" if held_out else "learn from"
                    return Rejected(why=f"fewer than {_FEWEST_SAMPLES} samples of class {class_id} to {use}")
        return None

    def _judged(self, fit: LinearFit) -> Specialist | Rejected:
        samples, where, known = self._samples, self._samples.held_out, len(self._dominance.classes)
        layer = fit.layer
        probabilities = layer.probabilities(samples.features[where])
        best = probabilities.argmax(axis=1)
        named = np.append(np.asarray(self._dominance.classes, np.int64), -1)[best]
        trial = Trial(
            confidence=probabilities.max(axis=1),
            claims=best < known,
            right=named == samples.labels[where],
            generic_right=samples.generic[where] == samples.labels[where],
            disagrees=named != samples.generic[where],
            weights=stream_weights(self._targets[where], self._dominance),
        )
        threshold, expected = calibrate(trial, self._small_ms, self._generic_ms)
        if expected.latency_ms > (1 - self._least_saving) * self._generic_ms:
            return Rejected(
                why=f"to be as accurate, the specialist would pass {expected.passed:.0%} of the frames on: "
                f"{expected.latency_ms:.1f} instead of {self._generic_ms:.1f} ms"
            )
        return Specialist(
            dominance=self._dominance,
            layer=layer,
            threshold=threshold,
            generic_classes=samples.classes,
            expected=expected,
        )


def targets(labels: Classes, dominance: Dominance) -> Classes:
    """int64 [samples]: which of the specialist's outputs is right; the last is "other"."""
    result = np.full(labels.shape, len(dominance.classes), np.int64)
    for output, class_id in enumerate(dominance.classes):
        result[labels == class_id] = output
    return result


def generic_accuracy(samples: TrainingSet, dominance: Dominance) -> float:
    """Share of right answers of the generic model alone to held-out samples, weighted as the stream is skewed."""
    where = samples.held_out
    weights = stream_weights(targets(samples.labels[where], dominance), dominance)
    return float(weights @ (samples.generic[where] == samples.labels[where]))


def stream_weights(wanted: Classes, dominance: Dominance, *, least_others: float = 0.0) -> TensorReplicas:
    """float64 [samples], sum 1: each class weighs what the stream shows of it, however many samples there are.

    Args:
        wanted: of :func:`targets`.
        least_others: "other" weighs at least this share.
    """
    known = np.asarray(dominance.shares)
    others = max(1 - float(known.sum()), least_others)
    shares = np.append(known * (1 - others) / known.sum(), others)
    counts = np.bincount(wanted, minlength=len(shares))
    weights: TensorReplicas = (shares / np.maximum(counts, 1))[wanted]
    return weights / weights.sum()
