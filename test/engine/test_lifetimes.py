# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of when maps that are not kept are alive."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from lowered import graph_of
from programs import dense_records
from torch import Tensor, nn

from cacheinf_ros.engine.caching import Caching
from cacheinf_ros.engine.execution.graph_planner import Planner
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.lifetimes import lifetimes
from cacheinf_ros.graph import load_model
from cacheinf_ros.memory.optimal import optimal


class _Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.left, self.right = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 4, 1), nn.Conv2d(8, 12, 1)
        self.head = nn.Conv2d(16, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.stem(x))
        return self.head(torch.cat([self.left(x), self.right(x)], dim=1))


def test_branches_lie_inside_their_concatenation() -> None:
    """Operators are stem 0, left 1, right 2 and head 3, on 10 x 12 pixels of 4 bytes."""
    records = dense_records(graph_of(_Branches(), (10, 12)), alignment=1)
    assert sorted((r.size, r.first, r.last) for r in records) == [(8 * 480, 0, 2), (16 * 480, 1, 3)]


def test_sizes_are_aligned_and_ends_are_kept() -> None:
    layers = nn.Sequential(nn.Conv2d(3, 5, 3), nn.Conv2d(5, 2, 1))
    (record,) = dense_records(graph_of(layers, (9, 9)))
    assert record.size == 1024  # 7 * 7 * 5 * 4 = 980, rounded up to 64
    assert (record.first, record.last) == (0, 1)


def test_what_is_computed_in_two_steps_lives_from_the_first_to_the_last() -> None:
    """Three windows of 3, of which the second map is kept and the third adds the first's output.

    To compute the third, the first is computed again around the pixels that the second needed.
    """

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = (nn.Conv2d(n, 4, 3, padding=1) for n in (3, 4, 4))

        def forward(self, x: Tensor) -> Tensor:
            x = torch.relu(self.a(x))
            return self.c(torch.relu(self.b(x))) + x

    graph = graph_of(Residual(), (20, 20))
    layout = lay_out(graph)
    a, b, _ = (operator.output for operator in graph.operators)
    caching = Caching(dropped=frozenset([a]))
    (record,) = lifetimes(Planner(layout).plan(caching).steps, layout, caching)
    assert (record.name, record.first, record.last) == (a, 0, 3)  # a, b, rest of a, c
    both = Caching(dropped=frozenset([a, b]))
    found = {r.name: (r.first, r.last) for r in lifetimes(Planner(layout).plan(both).steps, layout, both)}
    assert found == {a: (0, 2), b: (1, 2)}  # a, b, c


@pytest.mark.parametrize("name", ["FastestDet.onnx", "RFB-320_without_postprocessing.onnx"])
def test_the_arena_of_detectors_is_as_small_as_can_be(name: str, shared_data: Path) -> None:
    graph = load_model(str(shared_data / "models" / name)).graph
    assert optimal(dense_records(graph), time_limit_s=20).is_proven
