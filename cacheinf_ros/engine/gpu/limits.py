# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The delta thresholds of one tensor for each camera, in GPU memory."""

from __future__ import annotations

import torch

from cacheinf_ros.engine.delta_threshold import Criterion, DeltaThreshold


class Limits:
    """One criterion, and each camera's threshold and weights, which may change in place between frames.

    Attributes:
        criterion: how all cameras measure a change.
        thresholds: float32 [cameras]: each camera's threshold, squared where the criterion is a sum of squares.
        weights: float32 [cameras, channels]: the weight of each channel's change.
    """

    def __init__(self, criterion: Criterion, channels: int, cameras: int, device: torch.device) -> None:
        self.criterion = criterion
        self.thresholds = torch.zeros(cameras, device=device)
        self.weights = torch.ones((cameras, channels), device=device)

    @torch.inference_mode()  # as the tensors may have been created in it
    def set(self, camera: int, delta: DeltaThreshold) -> None:
        """Set a camera's threshold and weights; its criterion must be that of this object."""
        is_maximum = self.criterion is Criterion.MAXIMUM
        self.thresholds[camera] = delta.threshold if is_maximum else delta.squared_threshold
        self.weights[camera] = 1.0 if delta.weight is None else torch.from_numpy(delta.weight)
