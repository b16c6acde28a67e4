# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The kernels compiled from C++, on the CPU, with a thread pool of their own."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch

from cacheinf_ros.engine.backends.native_input import NativeInputWriter
from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.execution.native import NativeExecutor
from cacheinf_ros.engine.execution.steps import Step
from cacheinf_ros.engine.execution.tensors import Tensors
from cacheinf_ros.engine.input import InputWriter
from cacheinf_ros.engine.kernels.abi import CShift
from cacheinf_ros.engine.kernels.native import NativeKernels
from cacheinf_ros.engine.kernels.prepared import PreparedKernel
from cacheinf_ros.engine.kernels.reference import ReferenceKernels
from cacheinf_ros.engine.partition.replicas import TensorReplicas
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.graph.ir import Operator


class NativeBackend:
    """See :class:`Backend`. What no compiled kernel computes is left to torch.

    Attributes:
        name: for messages: the instruction set and the threads.
        device: the CPU.
        library: the compiled functions.
        threads: the ``ci_threads``, alive as long as this object.
    """

    def __init__(self, library: ctypes.CDLL, threads: int, *, bfloat16: bool = False) -> None:
        """``bfloat16``: whether convolutions round inputs and weights to it."""
        self.library = library
        self.device = torch.device("cpu")
        self.threads: int = library.ci_threads_create(threads)
        self._count = threads
        self._kernels = NativeKernels(library, bfloat16=bfloat16)
        self._torch = ReferenceKernels(self.device)
        precision = "bfloat16, " if bfloat16 else ""
        self.name = f"native ({library.ci_instruction_set().decode()}, {precision}{threads} threads)"
        weakref.finalize(self, library.ci_threads_destroy, self.threads)

    def prepare(self, operator: Operator, sources: Sequence[MapBuffer], channels: int) -> PreparedKernel:
        """See :meth:`Backend.prepare`."""
        call = self._kernels.prepare(operator, sources, channels)
        if call is None:
            return PreparedKernel(function=self._torch.prepare(operator, sources, channels))
        return PreparedKernel(call=call, alternative=self._kernels.alternative(call))

    def executor(
        self,
        steps: Sequence[Step],
        kernels: Mapping[str, PreparedKernel],
        tensors: Tensors,
        replicas: TensorReplicas | None,
    ) -> NativeExecutor:
        """See :meth:`Backend.executor`."""
        return NativeExecutor(steps, kernels, tensors, self.library, self.threads, replicas)

    def input(self, preprocessor: Preprocessor, target: MapBuffer) -> InputWriter:
        """See :meth:`Backend.input`."""
        return NativeInputWriter(preprocessor, target, self.library, self.threads)

    def shift(self, moves: Sequence[tuple[MapBuffer, int, int]]) -> None:
        """See :meth:`Backend.shift`."""
        by_size = sorted(moves, key=lambda move: -move[0].pixels.numel())
        # threads start with neighbouring tasks: each with large ones and small ones
        dealt = [move for i in range(self._count) for move in by_size[i :: self._count]]
        encoded = [
            CShift(
                pixels=b.pixels.data_ptr(), height=b.size[0], width=b.size[1], channels=b.pixels.shape[1], dx=dx, dy=dy
            )
            for b, dx, dy in dealt
        ]
        self.library.ci_shift_maps(self.threads, (CShift * len(encoded))(*encoded), len(encoded))

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Within it the threads do not fall asleep before a program has run: waking one takes up to milliseconds."""
        self.library.ci_threads_keep_awake(self.threads, True)
        try:
            yield
        finally:
            self.library.ci_threads_keep_awake(self.threads, False)
