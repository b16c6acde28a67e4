# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Converts logits to probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def softmax(logits: NDArray[Any]) -> NDArray[Any]:
    """Return probabilities that sum to 1 over the last axis, of the logits' own type."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def sigmoid(logits: NDArray[Any]) -> NDArray[Any]:
    """Return probabilities that do not depend on each other."""
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -80, 80))))
