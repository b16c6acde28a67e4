# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A specialist: a small trunk with a last layer for the classes that dominate now, and one output for all others.

It runs before the generic model, which runs only where the specialist says "other" or is not confident (MCDNN, section
5.2.1). The confidence threshold is chosen on held-out samples, such that the two together are right as often as the
generic model alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.catalog.linear import Floats, Linear
from cacheinf_ros.catalog.specialists.dominance import Dominance

Weights = NDArray[np.float64]
Flags = NDArray[np.bool_]
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The expected performance of specialist and generic model together, on samples weighted by the stream's skew.

    Attributes:
        accuracy: share of right answers.
        generic_accuracy: accuracy of the generic model alone.
        passed: share of the frames that the generic model has to answer.
        disagreement: share of the specialist's own answers that the generic model would contradict.
        latency_ms: mean time per frame.
        small_ms, generic_ms: time per frame of the specialist, and of the generic model.
    """

    accuracy: float
    generic_accuracy: float
    passed: float
    disagreement: float
    latency_ms: float
    small_ms: float
    generic_ms: float

    @property
    def break_even(self) -> float:
        """The share of frames passed on above which both take longer than the generic model alone."""
        return 1 - self.small_ms / self.generic_ms


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Specialist:
    """A last layer for a small trunk.

    Attributes:
        dominance: the classes that it knows, in the order of its outputs; the last output means any other class.
        layer: the linear layer on the trunk's features.
        threshold: least probability of an answer.
        generic_classes: number of the generic model's classes.
        expected: the expected performance.
    """

    dominance: Dominance
    layer: Linear
    threshold: float
    generic_classes: int
    expected: Expectation

    def answer(self, features: Floats) -> Answer:
        """Answer one frame, given its features, float32 [channels]."""
        probabilities = self.layer.probabilities(features.reshape(1, -1))[0]
        best = int(probabilities.argmax())
        known = len(self.dominance.classes)
        is_sure = best < known and float(probabilities[best]) >= self.threshold
        return Answer(class_id=self.dominance.classes[best] if is_sure else None, probabilities=probabilities)

    def logits(self, answer: Answer) -> Floats:
        """Return the answer as the generic model's output, log probabilities, float32 [1, generic classes]."""
        known = len(self.dominance.classes)
        other = float(answer.probabilities[known]) / max(1, self.generic_classes - known)
        spread = np.full((1, self.generic_classes), other, np.float32)
        spread[0, list(self.dominance.classes)] = answer.probabilities[:known]
        return np.log(np.maximum(spread, np.finfo(np.float32).tiny))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """A specialist's answer to one frame.

    Attributes:
        class_id: one of the generic model's classes; None: the generic model is to answer.
        probabilities: float32 [classes known + 1].
    """

    class_id: int | None
    probabilities: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trial:
    """A specialist's answers to samples that it was not trained on.

    Attributes:
        confidence: float [samples], probability of the best output.
        claims: bool [samples], whether the best output is a class and not "other".
        right, generic_right, disagrees: bool [samples], whether the specialist is right, whether the generic model is
            right, and whether the two disagree.
        weights: float64 [samples], sum 1: how often the stream shows such a sample.
    """

    confidence: Floats
    claims: Flags
    right: Flags
    generic_right: Flags
    disagrees: Flags
    weights: Weights


def calibrate(trial: Trial, small_ms: float, generic_ms: float) -> tuple[float, Expectation]:
    """Find the lowest threshold at which both models together are right as often as the generic one alone.

    A threshold above every confidence, with which all frames are passed on, always fulfils this.
    """
    order = np.argsort(-np.where(trial.claims, trial.confidence, -1.0), kind="stable")[: int(trial.claims.sum())]
    confidence = trial.confidence[order]
    won = np.cumsum(trial.weights[order] * (trial.right[order].astype(float) - trial.generic_right[order]))
    is_last = np.append(confidence[1:] != confidence[:-1], True)[: len(order)]  # equal confidences are taken together
    good = np.flatnonzero(is_last & (won >= -_TOLERANCE))
    taken = order[: int(good[-1]) + 1] if len(good) else order[:0]
    threshold = float(trial.confidence[taken[-1]]) if len(taken) else float(np.nextafter(1.0, 2.0))
    weight_taken = float(trial.weights[taken].sum())
    generic_accuracy = float(trial.weights @ trial.generic_right)
    passed = max(0.0, 1 - weight_taken)  # rounding errors of the sum
    return threshold, Expectation(
        accuracy=generic_accuracy + (float(won[len(taken) - 1]) if len(taken) else 0.0),
        generic_accuracy=generic_accuracy,
        passed=passed,
        disagreement=float(trial.weights[taken] @ trial.disagrees[taken]) / weight_taken if len(taken) else 0.0,
        latency_ms=small_ms + passed * generic_ms,
        small_ms=small_ms,
        generic_ms=generic_ms,
    )
