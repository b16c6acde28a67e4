# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Calls that are as accurate as in the network only where a map's channels lie one after the other in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

aten = torch.ops.aten

# Where channels lie together, torch takes the variance of a group as mean(x²) - mean(x)², in float32: of values whose
# mean is r times their spread it loses r² times the last digit. Elsewhere it sums squares of differences.
PLANAR = {aten.group_norm.default, aten.native_group_norm.default}


@dataclass(frozen=True, slots=True)
class Planar:
    """A call that first makes each channel of its first argument lie together; in the graph, pixels do."""

    target: Callable[..., Any]

    def __call__(self, x: torch.Tensor, *arguments: Any, **keywords: Any) -> Any:
        """Call the target with a contiguous first argument, and return its result."""
        return self.target(x.contiguous(), *arguments, **keywords)
