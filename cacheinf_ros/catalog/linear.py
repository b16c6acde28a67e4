# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Softmax regression: the linear layer that tells classes apart by their features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from cacheinf_ros.engine.decoders import softmax

Floats = NDArray[np.float32]
Classes = NDArray[np.int64]

_DECAY = 1e-4
_ITERATIONS = 5  # per step
_MOST_STEPS = 60
_STILL = 1e-4  # the fit ends where a step lowers the loss by a smaller share


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Linear:
    """A linear layer.

    Attributes:
        weight: float32 [classes, channels].
        bias: float32 [classes].
    """

    weight: Floats
    bias: Floats

    def probabilities(self, features: Floats) -> Floats:
        """Map features, float32 [samples, channels], to probabilities [samples, classes]; each row sums to 1."""
        return softmax(features @ self.weight.T + self.bias)


class LinearFit:
    """Fits a linear layer to weighted samples step by step, by L-BFGS on the cross entropy; deterministic."""

    def __init__(
        self, features: Floats, labels: Classes, classes: int, weights: NDArray[np.float64] | None = None
    ) -> None:
        """Prepare the fit; each :meth:`step` then improves it.

        Args:
            features: float32 [samples, channels].
            labels: int64 [samples], below ``classes``.
            weights: [samples], how much each sample counts; None: all count the same.
        """
        # features are normalised, or the weight decay would weigh on some more than on others
        self._mean, deviation = features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
        self._deviation = np.where(deviation > 1e-6 * max(float(deviation.max()), 1e-30), deviation, 1.0)
        self._features = torch.from_numpy((features - self._mean) / self._deviation)
        self._labels = torch.from_numpy(labels)
        counts = np.ones(len(labels)) if weights is None else weights
        self._weights = torch.from_numpy(counts / counts.sum())
        self._weight = torch.zeros(classes, features.shape[1], dtype=torch.float64, requires_grad=True)
        self._bias = torch.zeros(classes, dtype=torch.float64, requires_grad=True)
        self._optimiser = torch.optim.LBFGS(
            [self._weight, self._bias], max_iter=_ITERATIONS, line_search_fn="strong_wolfe", history_size=20
        )
        self._loss = float("inf")
        self._steps = 0

    def step(self) -> bool:
        """Run a few iterations; returns True when more would change little."""
        with torch.inference_mode(False), torch.enable_grad():
            before, self._loss = self._loss, float(self._optimiser.step(self._closure).detach())
        self._steps += 1
        return self._steps >= _MOST_STEPS or before - self._loss < _STILL * max(abs(self._loss), 1e-6)

    @property
    def layer(self) -> Linear:
        """The layer that has been fitted so far, for features as they were given (not normalised)."""
        weight = self._weight.detach().numpy() / self._deviation
        bias = self._bias.detach().numpy() - weight @ self._mean
        return Linear(weight=weight.astype(np.float32), bias=bias.astype(np.float32))

    def _closure(self) -> Tensor:
        self._optimiser.zero_grad()
        logits = self._features @ self._weight.t() + self._bias
        losses = functional.cross_entropy(logits, self._labels, reduction="none")
        loss = (losses * self._weights).sum() + _DECAY * self._weight.square().sum()
        loss.backward()
        return loss


def fit_linear(features: Floats, labels: Classes, classes: int) -> Linear:
    """Fit a linear layer to samples that all count the same, running all steps at once."""
    fit = LinearFit(features, labels, classes)
    while not fit.step():
        pass
    return fit.layer
