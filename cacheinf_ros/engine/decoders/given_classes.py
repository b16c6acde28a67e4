# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Classes that a model gives as they are: whole numbers instead of a score for each class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def are_whole(values: NDArray[Any]) -> bool:
    """Tell whether an output holds whole numbers."""
    return values.dtype.kind in "iu"


def shape_of_classes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of whole numbers without the single channel that ArgMax leaves: [1, 1, h, w] as [1, h, w]."""
    return (shape[0], *shape[2:]) if len(shape) == 4 and shape[1] == 1 else shape


def as_classes(values: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers [1, 1, height, width] as [1, height, width], and other outputs as they are."""
    return np.reshape(values, shape_of_classes(values.shape)) if are_whole(values) else values
