# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Outputs do not depend on which maps are kept between frames, and no map is read when it is not alive."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered import graph_of
from networks.random_models import random_model, seeds
from networks.shared_models import mixed_model
from programs import assert_same_outputs, caching_and_not
from torch import Tensor, nn

from cacheinf_ros.engine.backends import Backend, ReferenceBackend, choose_backend
from cacheinf_ros.engine.caching import Caching, droppable
from cacheinf_ros.engine.delta_threshold import Criterion, DeltaThreshold
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.graph.ir import Pointwise


@settings(max_examples=15)
@given(seed=seeds, share=st.sampled_from([0.3, 0.7, 1.0]), dense=st.booleans())
def test_random_networks(seed: int, share: float, dense: bool) -> None:
    """Networks have all operators in any order at odd sizes, and any maps are dropped.

    Outputs agree bit for bit, except where torch computes: its functions treat a row's last few values differently.
    """
    graph = random_model(seed).graph
    layout, rng = lay_out(graph), np.random.default_rng(seed)
    dropped = frozenset(name for name in droppable(layout) if rng.random() < share)
    caching = Caching.nothing(layout) if dense else Caching(dropped=dropped)
    by_torch = any(isinstance(operator, Pointwise) for operator in graph.operators)
    assert_same_outputs(graph, caching_and_not(graph, caching), seed, rounding=1e-5 if by_torch else 0.0)


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), criterion=st.sampled_from(Criterion))
def test_with_small_changes_held_back(seed: int, criterion: Criterion) -> None:
    """Changes of kept maps are held back, and dropped maps are computed from the old values."""
    graph = mixed_model().graph
    layout, rng = lay_out(graph), np.random.default_rng(seed)
    dropped = frozenset(name for name in droppable(layout) if rng.random() < 0.5)
    programs = caching_and_not(graph, Caching(dropped=dropped))
    kept = [o.output for o, _ in programs[1].profile.timeable() if layout.root(o.output) not in dropped]
    thresholds = {n: DeltaThreshold(threshold=0.05, criterion=criterion) for n in kept if rng.random() < 0.7}
    for program in programs:
        program.set_thresholds(thresholds)
    assert_same_outputs(graph, programs, seed, frames=5)


class _Gated(nn.Module):
    """Two kept outputs share an input d that is not kept, and that is computed from a, which nothing else reads."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.d, self.between = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 1)
        self.q1, self.q2, self.p = nn.Conv2d(3, 8, 1), nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        d = self.d(torch.relu(self.a(x)))
        first = d * torch.relu(self.q1(x))
        return self.p(self.between(self.p(first))), d * torch.relu(self.q2(x))


def test_maps_live_as_long_as_any_threshold_needs_them() -> None:
    """Where one of two siblings holds changes back, their input is computed in two steps instead of one."""
    graph = graph_of(_Gated(), (40, 48))
    layout = lay_out(graph)
    names = droppable(layout)
    for drawn in range(12):
        rng = np.random.default_rng(drawn)
        dropped = frozenset(name for name in names if rng.random() < 0.6)
        programs = caching_and_not(graph, Caching(dropped=dropped))
        held = [name for name in programs[0].kept if rng.random() < 0.5]
        for program in programs:
            program.set_thresholds({name: DeltaThreshold(threshold=0.2) for name in held})
        assert_same_outputs(graph, programs, drawn, frames=4)


class _Pooled(nn.Module):
    """The mean of a pooled map some of whose input pixels nothing reads, and another operator that reads them all."""

    def __init__(self) -> None:
        super().__init__()
        self.v, self.e, self.w = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 4, 3, padding=1), nn.Conv2d(8, 4, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        v = self.v(x)
        u = nn.functional.max_pool2d(v, 2)
        return self.e(u), u.mean((2, 3)), self.w(v)


@pytest.mark.parametrize(
    "kernels", [choose_backend("cpu", 1), ReferenceBackend(torch.device("cpu"))], ids=["native", "reference"]
)
def test_a_mean_completes_only_what_it_reads(kernels: Backend) -> None:
    graph = graph_of(_Pooled(), (21, 27))
    caching = Caching(dropped=frozenset(droppable(lay_out(graph))))
    for seed in range(8):
        assert_same_outputs(graph, caching_and_not(graph, caching, kernels), seed, rounding=1e-5)


def test_the_reference_executor_does_the_same() -> None:
    """The reference executor agrees up to rounding: torch's products depend on the number of rows."""
    graph = mixed_model().graph
    caching = Caching(dropped=frozenset(droppable(lay_out(graph))))
    assert_same_outputs(graph, caching_and_not(graph, caching, ReferenceBackend(torch.device("cpu"))), 0, rounding=1e-5)
