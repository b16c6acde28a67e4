"""What the scripts that train built-in networks have in common."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

_REPORT = 50  # steps
_WARM_UP = 0.15  # of all steps
_DECAY = 1e-3


def one_cycle(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, ...]],
    loss_of: Callable[..., Tensor],
    *,
    steps: int,
    learning_rate: float,
    steepest: float = math.inf,
) -> nn.Module:
    """One cycle of AdamW; progress is printed.

    Args:
        batches: of inputs and targets, as many as steps.
        loss_of: of the model's outputs and the targets.
        steepest: gradients are scaled down to this norm.
    """
    model.train()
    layout: Any = {"memory_format": torch.channels_last}
    model.to(**layout)
    optimiser = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, learning_rate, total_steps=steps, pct_start=_WARM_UP)
    started, recent = time.monotonic(), 0.0
    for step, (images, *targets) in enumerate(batches, start=1):
        loss = loss_of(model(images.to(**layout)), *targets)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if steepest < math.inf:
            nn.utils.clip_grad_norm_(model.parameters(), steepest)
        optimiser.step()
        schedule.step()
        recent += loss.item() / _REPORT
        if step % _REPORT == 0:
            print(f"step {step}/{steps}  loss {recent:.3f}  {time.monotonic() - started:.0f} s", flush=True)
            recent = 0.0
    return model.eval()
