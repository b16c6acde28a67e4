# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The training loop of networks: one cycle of AdamW."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

_WARM_UP = 0.15  # share of the steps in which the learning rate rises
_DECAY = 1e-3


def one_cycle(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, *tuple[Any, ...]]],
    loss_of: Callable[..., Tensor],
    *,
    steps: int,
    learning_rate: float,
    steepest: float = math.inf,
    report: Callable[[int, float], None] = lambda step, loss: None,
) -> nn.Module:
    """Train a network, and return it in mode eval with its values in channels_last.

    Args:
        batches: inputs and targets of each step, as many as ``steps``.
        loss_of: computes the loss from the model's outputs and the targets.
        steepest: norm to which gradients are clipped.
        report: called with each step, counted from 1, and its loss.
    """
    model.train()
    layout: Any = {"memory_format": torch.channels_last}
    model.to(**layout)
    optimiser = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, learning_rate, total_steps=steps, pct_start=_WARM_UP)
    for step, (images, *targets) in enumerate(batches, start=1):
        loss = loss_of(model(images.to(**layout)), *targets)
        optimiser.zero_grad()
        loss.backward()
        if steepest < math.inf:
            nn.utils.clip_grad_norm_(model.parameters(), steepest)
        optimiser.step()
        schedule.step()
        report(step, loss.item())
    return model.eval()
