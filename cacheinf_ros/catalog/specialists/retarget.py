# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Makes a specialist for the classes that dominate now: the work of MCDNN's background specialiser, section 5.2.1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from cacheinf_ros.catalog.linear import Classes, Linear, LinearFit
from cacheinf_ros.catalog.specialists.dominance import Dominance
from cacheinf_ros.catalog.specialists.specialist import Specialist, Trial, Weights, calibrate
from cacheinf_ros.catalog.specialists.specialist_folder import SpecialiseFolder
from cacheinf_ros.catalog.specialists.training_set import TrainingSet
from cacheinf_ros.catalog.trunks import trunk_model
from cacheinf_ros.graph import Model

_FEWEST_SAMPLES = 8  # of a class, to learn it and as many again to judge what was learned
_OTHERS = 0.05  # "other" is learned as if it made up at least so much of the stream
_LEAST_SAVING = 0.05  # share of the generic model's time that must be saved to be worth it


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """No specialist is worth having, and ``why`` tells the user."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Made:
    """A specialist, and where the trunk ends whose features it takes."""

    specialist: Specialist
    tensor: str


def load_trunks(folder: SpecialiseFolder, original: Model) -> dict[str, Model]:
    """Cut the small trunks out of a catalog's original; they are named by the tensors where they end.

    Raises:
        ModelError: the original has no such tensors.
    """
    return {entry.tensor: trunk_model(original, entry.tensor) for entry in folder.file.trunks}


def make_specialist(
    folder: SpecialiseFolder,
    dominance: Dominance,
    variant: str,
    trunks: Mapping[str, Model],
    cancelled: Callable[[], bool] = lambda: False,
) -> Made | Rejected | None:
    """Try the trunks that are useful for the skew, the cheapest first, until a specialist is worth having.

    It shares nothing with other threads but the trunks, which it only reads.

    Args:
        folder: of the model.
        dominance: what to specialise to.
        variant: that answers what the specialist passes on.
        trunks: all of the folder's, by the tensors where they end: see :func:`load_trunks`.
        cancelled: asked every few milliseconds.

    Returns:
        None when cancelled.

    Raises:
        CatalogError: the samples cannot be read.
    """
    refused = []
    for entry in folder.trunks_for(dominance.pair, variant):
        samples = folder.samples(entry, trunks[entry.tensor], variant)
        generic_ms = folder.file.variant_ms[variant]
        outcome = retarget(samples, dominance, small_ms=entry.ms, generic_ms=generic_ms, cancelled=cancelled)
        if outcome is None:
            return None
        if isinstance(outcome, Specialist):
            return Made(specialist=outcome, tensor=entry.tensor)
        refused.append(f"{entry.tensor}: {outcome.why}")
    return Rejected(why="; ".join(refused))


def retarget(
    samples: TrainingSet,
    dominance: Dominance,
    *,
    small_ms: float,
    generic_ms: float,
    cancelled: Callable[[], bool] = lambda: False,
) -> Specialist | Rejected | None:
    """Train a last layer on features that were computed before, and judge it on the samples that were held out.

    Args:
        samples: of the small trunk that the specialist will have.
        dominance: what to specialise to.
        small_ms, generic_ms: what a frame takes with the trunk, and with the generic model.
        cancelled: asked every few milliseconds.

    Returns:
        None when cancelled.
    """
    if small_ms >= generic_ms:
        return Rejected(why=f"the small variant takes {small_ms:.1f} ms, the model {generic_ms:.1f}")
    wanted = targets(samples.labels, dominance)
    lacking = _lacking(samples, wanted, dominance)
    if lacking is not None:
        return lacking
    training = ~samples.held_out
    weights = stream_weights(wanted[training], dominance, least_others=_OTHERS)
    fit = LinearFit(samples.features[training], wanted[training], len(dominance.classes) + 1, weights)
    while not cancelled():
        if fit.step():
            threshold, expected = calibrate(_tried(fit.layer, samples, wanted, dominance), small_ms, generic_ms)
            if expected.latency_ms > (1 - _LEAST_SAVING) * generic_ms:
                return Rejected(
                    why=f"to be as accurate, the specialist would pass {expected.passed:.0%} of the frames on: "
                    f"{expected.latency_ms:.1f} instead of {generic_ms:.1f} ms"
                )
            return Specialist(
                dominance=dominance, layer=fit.layer, threshold=threshold, generic_classes=samples.classes,
                expected=expected,
            )  # fmt: skip
    return None


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


def stream_weights(wanted: Classes, dominance: Dominance, *, least_others: float = 0.0) -> Weights:
    """float64 [samples], sum 1: each class weighs what the stream shows of it, however many samples there are.

    Args:
        wanted: of :func:`targets`.
        least_others: "other" weighs at least this share.
    """
    known = np.asarray(dominance.shares)
    others = max(1 - float(known.sum()), least_others)
    shares = np.append(known * (1 - others) / known.sum(), others)
    counts = np.bincount(wanted, minlength=len(shares))
    weights: Weights = (shares / np.maximum(counts, 1))[wanted]
    return weights / weights.sum()


def _lacking(samples: TrainingSet, wanted: Classes, dominance: Dominance) -> Rejected | None:
    for held_out in (False, True):
        seen = wanted[samples.held_out == held_out]
        for output, class_id in enumerate((*dominance.classes, "other")):
            if int((seen == output).sum()) < _FEWEST_SAMPLES:
                use = "judge by" if held_out else "learn from"
                return Rejected(why=f"fewer than {_FEWEST_SAMPLES} samples of class {class_id} to {use}")
    return None


def _tried(layer: Linear, samples: TrainingSet, wanted: Classes, dominance: Dominance) -> Trial:
    """What the layer says of the samples that were held out."""
    where, known = samples.held_out, len(dominance.classes)
    probabilities = layer.probabilities(samples.features[where])
    best = probabilities.argmax(axis=1)
    named = np.append(np.asarray(dominance.classes, np.int64), -1)[best]
    return Trial(
        confidence=probabilities.max(axis=1),
        claims=best < known,
        right=named == samples.labels[where],
        generic_right=samples.generic[where] == samples.labels[where],
        disagrees=named != samples.generic[where],
        weights=stream_weights(wanted[where], dominance),
    )
