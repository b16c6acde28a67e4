# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What changes of one tensor are held back, for each camera, in the memory of a GPU."""

from __future__ import annotations

import torch

from cacheinf_ros.engine.delta_threshold import Criterion, DeltaThreshold


class Limits:
    """One criterion, and each camera's threshold and weights; they may change between frames, where they are.

    Attributes:
        criterion: of all cameras.
        thresholds: float32 [cameras]: of sums of squares the squared ones.
        weights: float32 [cameras, channels].
    """

    def __init__(self, criterion: Criterion, channels: int, cameras: int, device: torch.device) -> None:
        self.criterion = criterion
        self.thresholds = torch.zeros(cameras, device=device)
        self.weights = torch.ones((cameras, channels), device=device)

    @torch.inference_mode()  # within which it may have been made
    def set(self, camera: int, delta: DeltaThreshold) -> None:
        """Let a camera's changes be held back so; the criterion must be the same."""
        is_maximum = self.criterion is Criterion.MAXIMUM
        self.thresholds[camera] = delta.threshold if is_maximum else delta.squared_threshold
        self.weights[camera] = 1.0 if delta.weight is None else torch.from_numpy(delta.weight)
