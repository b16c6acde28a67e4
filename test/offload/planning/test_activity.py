# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The predicted activity of each tensor equals the engine's own active sets."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks.lowered import graph_of
from networks.shared_models import mixed_model
from oracle import changed
from torch import nn
from workloads import MIXED, Chain, efficient, mixed, outdated, workload

from cacheinf_ros.engine import Engine, EngineConfig
from cacheinf_ros.engine.execution.active import pooled
from cacheinf_ros.engine.execution.graph_planner import Planner
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.rematerialisation import RegionModel, Regions
from cacheinf_ros.offload.planning import Workload
from cacheinf_ros.offload.planning.activity import _single_pixels
from cacheinf_ros.offload.planning.workload import REUSE


@cache
def kept_engine() -> Engine:
    """Return one engine for all examples, as making one measures what its operators take."""
    return Engine(mixed_model(), EngineConfig(dense_fallback=False))


class Parts(nn.Module):
    """Pictures side by side, each of which goes through a convolution of its own."""

    def __init__(self, pictures: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(3, 2, 3, padding=1) for _ in range(pictures))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = x.chunk(len(self.convolutions), dim=3)
        found = [convolution(part) for convolution, part in zip(self.convolutions, parts, strict=True)]
        while len(found) > 1:
            found.append(torch.maximum(found.pop(0), found.pop(0)))
        return found[0]


def test_the_pixel_in_the_middle_counts_where_it_reaches_a_tensor() -> None:
    plan = Planner(lay_out(mixed_model().graph)).plan()
    alone = RegionModel(()).follow(plan, Regions.in_the_middle(plan.input.size, [0.0]))
    several = RegionModel(()).follow(plan, _single_pixels(plan.input.size))
    for active in alone:
        assert several[active].count[0] == alone[active].count[0]
        for axis in (0, 1):
            assert several[active].first[axis][0] == alone[active].first[axis][0]
            assert several[active].last[axis][0] == alone[active].last[axis][0]


@pytest.mark.parametrize("pictures", [2, 5, 32])
def test_all_pictures_side_by_side_are_reached(pictures: int) -> None:
    size = (24, 24 * pictures)
    work = Workload(lay_out(graph_of(Parts(pictures), size)))
    assert (work.activity.reach >= 0.0).all()
    assert (work.activity.shares(np.ones(size, np.uint8)) == 1.0).all()


def test_a_pixel_reaches_its_receptive_field() -> None:
    """In a chain of 10 x 4 pixels, 1 x 1 and then 5 x 5, a pixel of the middle column reaches 5 x 4 outputs."""
    work = workload(Chain(reach=2))
    assert work.activity.reach == pytest.approx([0, 0, 2])
    mask = np.zeros((10, 4), np.uint8)
    mask[5, 1] = 1
    assert work.activity.shares(mask) == pytest.approx([1 / 40, 1 / 40, 20 / 40])
    mask[0, 0] = 1  # seen by 3 x 3 more, of which the first pixel's rows are 3 to 7
    assert work.activity.shares(mask) == pytest.approx([2 / 40, 2 / 40, (20 + 9) / 40])


@pytest.fixture(params=[efficient, mixed])
def work(request: pytest.FixtureRequest) -> Workload:
    return request.param()


def test_rectangles_give_what_the_region_model_says(work: Workload) -> None:
    for i, reuse in enumerate(REUSE[:-1]):
        found = work.activity.shares(outdated(work, 1 - reuse).changed)
        assert np.abs(found - work.active[i]).mean() < 0.08


def test_nothing_and_everything(work: Workload) -> None:
    mask = np.zeros(work.activity.size, np.uint8)
    assert not work.activity.shares(mask).any()
    assert work.activity.shares(1 - mask) == pytest.approx(np.ones(len(work.heights)))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0.01, 0.3))
def test_scattered_changes_activate_about_what_the_engine_computes(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 256, (*MIXED.activity.size, 3), np.uint8)
    engine = kept_engine()
    engine.reset()
    engine.run(first, None)
    image, cache_map = changed(first, 8, share, rng)
    engine.run(image, cache_map)
    expected = dict(zip(MIXED.names, MIXED.activity.shares(engine.program.changed_input.mask)[1:], strict=True))
    errors = [
        expected[operator.output] - found.count / found.pixels for operator, found in engine.program.profile.timeable()
    ]
    assert len(errors) > 5
    assert np.abs(errors).mean() < 0.1


def test_pooling_loses_no_pixel_and_invents_none() -> None:
    mask = np.zeros((48, 64), np.uint8)
    mask[17, 33] = 1
    small = pooled(mask, (6, 8))
    assert small.sum() == 1 and small[2, 4] == 1
    assert pooled(small, (48, 64)).sum() == 64
    assert pooled(mask, (48, 64)) is mask
