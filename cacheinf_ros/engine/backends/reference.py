# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Plain torch, on any device: what the compiled kernels are tested against, and what runs where there are none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch

from cacheinf_ros.engine.backends.reference_input import ReferenceInputWriter
from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.execution.reference import ReferenceExecutor
from cacheinf_ros.engine.execution.steps import Step
from cacheinf_ros.engine.execution.tensors import Tensors
from cacheinf_ros.engine.input import InputWriter
from cacheinf_ros.engine.kernels.prepared import PreparedKernel
from cacheinf_ros.engine.kernels.reference import ReferenceKernels
from cacheinf_ros.engine.partition.replicas import TensorReplicas
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.graph.ir import Operator


class ReferenceBackend:
    """See :class:`Backend`.

    Attributes:
        name: for messages.
        device: where the maps are.
    """

    def __init__(self, device: torch.device) -> None:
        self.name = "reference"
        self.device = device
        self._kernels = ReferenceKernels(device)

    def prepare(self, operator: Operator, sources: Sequence[MapBuffer], channels: int) -> PreparedKernel:
        """See :meth:`Backend.prepare`."""
        return PreparedKernel(function=self._kernels.prepare(operator, sources, channels))

    def executor(
        self,
        steps: Sequence[Step],
        kernels: Mapping[str, PreparedKernel],
        tensors: Tensors,
        replicas: TensorReplicas | None,
    ) -> ReferenceExecutor:
        """See :meth:`Backend.executor`."""
        return ReferenceExecutor(steps, kernels, tensors, self.device, replicas)

    def input(self, preprocessor: Preprocessor, target: MapBuffer) -> InputWriter:
        """See :meth:`Backend.input`."""
        return ReferenceInputWriter(preprocessor, target)

    def shift(self, moves: Sequence[tuple[MapBuffer, int, int]]) -> None:
        """See :meth:`Backend.shift`."""
        for buffer, right, down in moves:
            buffer.move(right, down)
            buffer.expose(right, down)

    def awake(self) -> AbstractContextManager[None]:
        """There is no thread to be kept awake."""
        return nullcontext()
