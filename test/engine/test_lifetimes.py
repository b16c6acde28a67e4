"""When the tensors of a graph are alive."""

from __future__ import annotations

from dataclasses import replace

import torch
from lowered import graph_of
from torch import Tensor, nn

from cacheinf_ros.engine.lifetimes import intermediate_tensors


class _Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.left, self.right = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 4, 1), nn.Conv2d(8, 12, 1)
        self.head = nn.Conv2d(16, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.stem(x))
        return self.head(torch.cat([self.left(x), self.right(x)], dim=1))


def test_branches_lie_inside_their_concatenation() -> None:
    """Operators: stem 0, left 1, right 2, concatenation 3, head 4; 10 x 12 pixels of 4 bytes."""
    records = intermediate_tensors(graph_of(_Branches(), (10, 12)), alignment=1)
    assert sorted((r.size, r.first, r.last) for r in records) == [(8 * 480, 0, 2), (16 * 480, 1, 4)]


def test_sizes_are_aligned_and_ends_are_no_intermediate_tensors() -> None:
    layers = nn.Sequential(nn.Conv2d(3, 5, 3), nn.Conv2d(5, 2, 1))
    (record,) = intermediate_tensors(graph_of(layers, (9, 9)))
    assert record.size == 1024  # 7 * 7 * 5 * 4 = 980, rounded up to 64
    assert (record.first, record.last) == (0, 1)


def test_tensors_that_are_no_maps_count_whole() -> None:
    """As attention returns: [1, tokens, channels]."""
    graph = graph_of(nn.Sequential(nn.Conv2d(3, 5, 3), nn.Conv2d(5, 2, 1)), (9, 9))
    tokens = {name: replace(spec, shape=(1, 197, 768)) for name, spec in graph.tensors.items()}
    (record,) = intermediate_tensors(replace(graph, tensors=tokens), alignment=1)
    assert record.size == 4 * 197 * 768
