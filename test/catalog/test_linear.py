# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of softmax regression."""

from __future__ import annotations

import numpy as np
import pytest
from skewed import training_set

from cacheinf_ros.catalog.linear import Linear, LinearFit, fit_linear


def test_probabilities_by_hand() -> None:
    layer = Linear(weight=np.array([[1.0, 0.0], [0.0, 2.0]], np.float32), bias=np.array([0.0, 1.0], np.float32))
    found = layer.probabilities(np.array([[3.0, 1.0], [0.0, 0.0]], np.float32))
    assert found == pytest.approx(np.array([[0.5, 0.5], [1 / (1 + np.e), np.e / (1 + np.e)]]))


def test_it_tells_separable_classes_apart() -> None:
    samples = training_set()
    layer = fit_linear(samples.features, samples.labels, 15)
    other = training_set(seed=1)
    assert (layer.probabilities(other.features).argmax(axis=1) == other.labels).mean() > 0.99


def test_features_of_any_scale() -> None:
    """Scaled and shifted features give the same probabilities, and a constant one does no harm."""
    samples = training_set(noise=1.0)
    scale, shift = np.logspace(-3, 3, 24).astype(np.float32), np.linspace(-5, 5, 24, dtype=np.float32)
    moved = np.hstack([samples.features * scale + shift * scale, np.full((len(samples.labels), 1), 7, np.float32)])
    plain, other = (fit_linear(x, samples.labels, 15).probabilities(x) for x in (samples.features, moved))
    assert other == pytest.approx(plain, abs=0.1)


def test_weights_count_like_copies() -> None:
    samples = training_set(per_class=8, noise=1.5)
    often = np.where(samples.labels == 3, 3, 1)
    fits = [
        LinearFit(samples.features, samples.labels, 15, often.astype(float)),
        LinearFit(np.repeat(samples.features, often, axis=0), np.repeat(samples.labels, often), 15),
    ]
    for fit in fits:
        while not fit.step():
            pass
    found = [fit.layer.probabilities(samples.features) for fit in fits]
    assert found[0].argmax(axis=1).tolist() == found[1].argmax(axis=1).tolist()


def test_the_same_samples_give_the_same_layer() -> None:
    samples = training_set()
    layers = [fit_linear(samples.features, samples.labels, 15) for _ in range(2)]
    assert np.array_equal(layers[0].weight, layers[1].weight) and np.array_equal(layers[0].bias, layers[1].bias)
