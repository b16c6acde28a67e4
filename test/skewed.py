# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Skewed streams of classes, and training sets whose truth is known."""

from __future__ import annotations

import numpy as np

from cacheinf_ros.catalog.specialists.dominance import Dominance, Pair
from cacheinf_ros.catalog.specialists.training_set import TrainingSet

CLASSES = 15


def training_set(seed: int = 0, per_class: int = 40, noise: float = 0.5, generic_accuracy: float = 0.95) -> TrainingSet:
    """Draw features around a corner of its own for each class; every fourth sample is held out."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(CLASSES), per_class)
    corners = np.random.default_rng(99).choice([-1.0, 1.0], (CLASSES, 24))
    features = corners[labels] + rng.normal(0, noise, (len(labels), 24))
    wrong = rng.random(len(labels)) >= generic_accuracy
    generic = np.where(wrong, (labels + 1) % CLASSES, labels)
    return TrainingSet(
        trunk="made up",
        classes=CLASSES,
        features=features.astype(np.float32),
        labels=labels,
        generic=generic,
        held_out=np.arange(len(labels)) % 4 == 3,
    )


def dominance(n: int = 7, p: float = 0.9) -> Dominance:
    """Return a dominance of the first n classes, all equally frequent."""
    return Dominance(pair=Pair(n=n, p=p), classes=tuple(range(n)), shares=(p / n,) * n)


def draw(rng: np.random.Generator, count: int, n: int = 7, p: float = 0.9) -> list[int]:
    """Draw the classes of a stream in which the first n make up about a share p."""
    known = rng.random(count) < p
    return [int(c) for c in np.where(known, rng.integers(0, n, count), rng.integers(n, CLASSES, count))]
