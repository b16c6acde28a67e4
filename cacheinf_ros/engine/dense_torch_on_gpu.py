# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Plain torch as a dense engine on a CUDA device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.gpu.cuda_graph import captured
from cacheinf_ros.engine.kernels.reference_kernels import on_device
from cacheinf_ros.engine.tf32 import tf32
from cacheinf_ros.graph import DenseGraph, Graph
from cacheinf_ros.graph.ir import Global, Pointwise

_WARM_UP = 3  # runs before one is captured, in which cuDNN chooses its kernels


class TorchOnDevice:
    """A graph in plain torch, channels_last; on a GPU captured as one CUDA graph, where that is possible."""

    def __init__(
        self, graph: Graph, device: torch.device, dtype: torch.dtype = torch.float32, *, rounds: bool = False
    ) -> None:
        """Put the weights on the device.

        Args:
            dtype: the type of weights and maps.
            rounds: whether convolutions may round float32 factors to TF32.
        """
        height, width = graph.tensors[graph.input].shape[2:]
        self._module = DenseGraph(_constants_on(graph, device)).to(device=device, dtype=dtype)
        self._rounds = rounds
        self._image = torch.zeros((1, 3, height, width), device=device, dtype=dtype).to(
            memory_format=torch.channels_last
        )
        self._outputs: list[torch.Tensor] = []
        self._graph = self._captured() if device.type == "cuda" else None

    @torch.inference_mode()
    def __call__(self, image: NDArray[np.float32]) -> list[NDArray[Any]]:
        """Compute the outputs, in the graph's order; they are on the CPU, so the device has been waited for."""
        self._image.copy_(torch.from_numpy(image))
        if self._graph is None:
            self._compute()
        else:
            self._graph.replay()
        return [as_array(value) for value in self._outputs]

    def _compute(self) -> None:
        with tf32(self._image.device, allowed=self._rounds, benchmark=True):
            self._outputs = list(self._module(self._image).values())

    @torch.inference_mode()
    def _captured(self) -> torch.cuda.CUDAGraph | None:
        stream = torch.cuda.Stream(self._image.device)
        stream.wait_stream(torch.cuda.current_stream(self._image.device))
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                self._compute()
        torch.cuda.current_stream(self._image.device).wait_stream(stream)
        return captured(self._compute, "torch's dense frame")


def _constants_on(graph: Graph, device: torch.device) -> Graph:
    """Put the constants of a graph's calls on a device; weights follow with the modules that hold them."""
    operators = tuple(
        replace(
            operator,
            arguments=on_device(operator.arguments, device),
            **({"keywords": on_device(operator.keywords, device)} if isinstance(operator, Global) else {}),
        )
        if isinstance(operator, (Pointwise, Global))
        else operator
        for operator in graph.operators
    )
    return replace(graph, operators=operators)


def as_array(value: torch.Tensor) -> NDArray[Any]:
    """Return the tensor as an array, floats as float32: callers expect that, and numpy has no bfloat16."""
    return (value.float() if value.is_floating_point() else value).cpu().numpy()
