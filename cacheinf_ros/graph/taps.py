# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Which input pixels an output pixel reads along one axis, as a table: for every separable local operator."""

from __future__ import annotations

from dataclasses import dataclass

import torch

OUTSIDE = -1
"""The index of a tap that lies outside the image."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AxisTaps:
    """The taps of a resampling along one axis.

    Attributes:
        index: int32 [out_size, taps]: input position, or :data:`OUTSIDE`.
        weight: float32 [out_size, taps]: factor of the value there; 0 at unused taps, whose index is OUTSIDE.
        in_size: pixels of the input along this axis.
    """

    index: torch.Tensor
    weight: torch.Tensor
    in_size: int

    @property
    def out_size(self) -> int:
        """The number of pixels of the output along this axis."""
        return int(self.index.shape[0])
