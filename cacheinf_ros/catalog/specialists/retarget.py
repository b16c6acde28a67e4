# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Makes a specialist for the classes that dominate now: the work of MCDNN's background specialiser, section 5.2.1."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cacheinf_ros.catalog.linear import Classes, Linear, LinearFit
from cacheinf_ros.catalog.specialists.dominance import Dominance
from cacheinf_ros.catalog.specialists.specialist import Specialist, Trial, Weights, calibrate
from cacheinf_ros.catalog.specialists.specialist_folder import SpecialiseFolder, TrunkCut
from cacheinf_ros.catalog.specialists.training_set import TrainingSet
from cacheinf_ros.catalog.trunks import trunk_model
from cacheinf_ros.graph import Model

_FEWEST_SAMPLES = 8  # per class, to train on and as many again to evaluate on
_OTHERS = 0.05  # least share of the stream that training assumes for "other"
_LEAST_SAVING = 0.05  # share of the generic model's time that a specialist must save


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """The outcome where no specialist is worth having; ``why`` tells the user the reason."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Made:
    """A specialist, and the name of the trunk whose features it takes."""

    specialist: Specialist
    trunk: str


def load_trunks(cuts: Sequence[TrunkCut], network: Callable[[str], Model]) -> dict[str, Model]:
    """Return small trunks by name, cut out of the networks of a catalog's variants.

    Args:
        network: loads the network of a variant; "" is the original.

    Raises:
        ModelError: a network has no such tensor.
        CacheinfError: a network cannot be loaded.
    """
    networks = {variant: network(variant) for variant in {cut.variant for cut in cuts}}
    return {cut.name: trunk_model(networks[cut.variant], cut.tensor) for cut in cuts}


def make_specialist(
    folder: SpecialiseFolder,
    dominance: Dominance,
    variant: str,
    trunks: Mapping[str, Model],
    cancelled: Callable[[], bool] = lambda: False,
) -> Made | Rejected | None:
    """Try the trunks that are useful for the skew, the cheapest first, until a specialist is worth having.

    May run in a thread of its own: it shares only the trunks with other threads, and only reads them.

    Args:
        folder: the folder of the model's training sets.
        dominance: the skew to specialise to.
        variant: the variant that answers the frames that the specialist passes on.
        trunks: trunks by name, see :func:`load_trunks`; others are not tried.
        cancelled: called every few milliseconds; True stops the work.

    Returns:
        The specialist, or why there is none; None when cancelled.

    Raises:
        CatalogError: the samples cannot be read.
    """
    refused = []
    for entry in folder.trunks_for(dominance.pair, variant):
        if entry.name not in trunks:
            continue
        samples = folder.samples(entry, trunks[entry.name], variant)
        generic_ms = folder.file.variant_ms[variant]
        outcome = retarget(samples, dominance, small_ms=entry.ms, generic_ms=generic_ms, cancelled=cancelled)
        if outcome is None:
            return None
        if isinstance(outcome, Specialist):
            return Made(specialist=outcome, trunk=entry.name)
        refused.append(f"{entry.name}: {outcome.why}")
    return Rejected(why="; ".join(refused))


def retarget(
    samples: TrainingSet,
    dominance: Dominance,
    *,
    small_ms: float,
    generic_ms: float,
    cancelled: Callable[[], bool] = lambda: False,
) -> Specialist | Rejected | None:
    """Train a last layer on features computed before, and evaluate it on held-out samples.

    Args:
        samples: the training set of the specialist's small trunk.
        dominance: the skew to specialise to.
        small_ms, generic_ms: time per frame of the trunk, and of the generic model.
        cancelled: called every few milliseconds; True stops the work.

    Returns:
        The specialist, or why there is none; None when cancelled.
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
    """Return the specialist's right output for each sample, int64 [samples]; the last output is "other"."""
    result = np.full(labels.shape, len(dominance.classes), np.int64)
    for output, class_id in enumerate(dominance.classes):
        result[labels == class_id] = output
    return result


def generic_accuracy(samples: TrainingSet, dominance: Dominance) -> float:
    """Return the generic model's share of right answers to held-out samples, weighted by the stream's skew."""
    where = samples.held_out
    weights = stream_weights(targets(samples.labels[where], dominance), dominance)
    return float(weights @ (samples.generic[where] == samples.labels[where]))


def stream_weights(wanted: Classes, dominance: Dominance, *, least_others: float = 0.0) -> Weights:
    """Return weights, float64 [samples] with sum 1, that give each class its share of the stream.

    Args:
        wanted: the right outputs, from :func:`targets`.
        least_others: least share that "other" gets.
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
    """Return the layer's answers to the held-out samples."""
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
