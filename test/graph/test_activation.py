# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The tensors of an activation are on its device before frames arrive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from networks.lowered import graph_of
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.kernels.reference_kernels import ReferenceKernels
from cacheinf_ros.graph import DenseGraph

META = torch.device("meta")  # as separate from the CPU as a GPU is
NETWORKS = {
    "convolution": nn.Sequential(nn.Conv2d(3, 4, 3), nn.PReLU(4)),
    "element by element": nn.PReLU(3),
}
networks = pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)


class _NothingIsCopied(TorchDispatchMode):
    def __torch_dispatch__(
        self, func: Any, types: Sequence[Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        assert func is not torch.ops.aten._to_copy.default, "something is copied in every frame"
        return func(*args, **(kwargs or {}))


@networks
def test_dense_frames_copy_nothing_to_the_device(network: nn.Module) -> None:
    dense = DenseGraph(graph_of(network, (8, 9))).to(META)
    with torch.inference_mode(), _NothingIsCopied():
        (output,) = dense(torch.empty((1, 3, 8, 9), device=META)).values()
    assert output.device == META


@networks
def test_kernels_copy_nothing_to_the_device(network: nn.Module) -> None:
    graph = graph_of(network, (8, 9))
    (operator,) = graph.operators
    source = MapBuffer.allocate((8, 9), 3, META)
    compute = ReferenceKernels(META).prepare(operator, [source], graph.tensors[operator.output].channels)
    listed = torch.arange(5, device=META)
    with torch.inference_mode(), _NothingIsCopied():
        assert compute(listed).device == META
