# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of the thresholds from which the search starts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lowered import graph_of
from torch import Tensor, nn

from cacheinf_ros.engine.bounded.bases import possible_bases, spread_base, standard_deviations
from cacheinf_ros.engine.delta_threshold import Criterion
from cacheinf_ros.errors import EngineError


class _WithClasses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 5, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.head(torch.relu(self.stem(x)))
        return scores, scores.argmax(dim=1, keepdim=True)


GRAPH = graph_of(_WithClasses(), (8, 10))


def test_spreads_are_of_all_inputs_together_and_of_numbers_only() -> None:
    """Values 0 and 1, half each, have a variance of 1/4, times n / (n - 1); a uniform picture has none."""
    checked = np.zeros((1, 3, 8, 10), np.float32)
    checked[..., ::2] = 1
    spreads = standard_deviations(GRAPH, [checked, np.zeros_like(checked)])
    assert spreads[GRAPH.input] == pytest.approx((0.25 * 240 / 239 / 2) ** 0.5)
    assert len(spreads) < len(GRAPH.tensors), "classes have no spread"


def test_spreads_count_per_channel_and_the_input_is_never_pooled() -> None:
    inner = GRAPH.operators[0].output
    base = spread_base(GRAPH, (GRAPH.input, inner, "unknown"), {GRAPH.input: 1.0, inner: 0.5}, Criterion.POOLED_ENERGY)
    assert base[inner].threshold / base[GRAPH.input].threshold == pytest.approx(0.5 * (4 / 3) ** 0.5)
    assert base[GRAPH.input].criterion is Criterion.ENERGY
    assert base[inner].criterion is Criterion.POOLED_ENERGY


def test_frames_that_show_nothing_are_refused() -> None:
    with pytest.raises(EngineError, match="show something"):
        possible_bases(GRAPH, [GRAPH.operators[0].output], {}, {})
