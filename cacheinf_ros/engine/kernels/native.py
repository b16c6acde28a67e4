"""The row kernels compiled from ``native/``; what they do not cover is inherited from the reference."""

from __future__ import annotations

import ctypes
import weakref

import numpy as np
import torch

from cacheinf_ros.engine.active import ActiveSet, Grow
from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.kernels.library import CConv, CPool, CWindow
from cacheinf_ros.engine.kernels.reference import ReferenceKernels, RowKernel
from cacheinf_ros.graph.ir import UNBOUNDED, Conv, Pool
from cacheinf_ros.graph.window import Window


class NativeKernels(ReferenceKernels):
    """The same kernels in C++, on the CPU, with a thread pool of their own."""

    def __init__(self, library: ctypes.CDLL, threads: int) -> None:
        super().__init__(torch.device("cpu"))
        self._library = library
        self._threads = library.ci_threads_create(threads)
        self.name = f"native ({library.ci_instruction_set().decode()}, {threads} threads)"
        weakref.finalize(self, library.ci_threads_destroy, self._threads)

    def conv(self, op: Conv, source: MapBuffer, target: MapBuffer, residual: MapBuffer | None) -> RowKernel:
        """As an indirect matrix product; depthwise convolutions directly."""
        outputs, inputs = op.weight.shape[:2]
        depthwise = inputs == 1 and outputs == op.groups
        weight = _by_tap(op) if depthwise else self._packed(op)
        bias = op.bias.contiguous()
        call = CConv(
            window=CWindow.of(op.window),
            groups=op.groups,
            in_channels=inputs,
            out_channels=outputs // op.groups,
            activation=int(op.clamp != UNBOUNDED),
            low=op.clamp[0],
            high=op.clamp[1],
            in_pitch=source.rows.stride(0),
            out_pitch=target.rows.stride(0),
            residual_pitch=residual.rows.stride(0) if residual else 0,
            input=source.rows.data_ptr(),
            weight=weight.data_ptr(),
            bias=bias.data_ptr(),
            residual=residual.rows.data_ptr() if residual else None,
            out=target.rows.data_ptr(),
        )
        function = self._library.ci_depthwise_rows if depthwise else self._library.ci_conv_rows
        return self._on_rows(function, call, (source, target, residual, weight, bias))

    def pool(self, op: Pool, source: MapBuffer, target: MapBuffer) -> RowKernel:
        """Maximum or average over a window."""
        call = CPool(
            window=CWindow.of(op.window),
            channels=source.rows.shape[1],
            average=op.average,
            count_padding=op.count_padding,
            in_pitch=source.rows.stride(0),
            out_pitch=target.rows.stride(0),
            input=source.rows.data_ptr(),
            out=target.rows.data_ptr(),
        )
        return self._on_rows(self._library.ci_pool_rows, call, (source, target))

    def grow(self, window: Window) -> Grow:
        """Growth of active sets, mask and indices in one pass."""
        call = CWindow.of(window)
        between = np.empty((window.in_size[0], window.out_size[1]), np.uint8)
        dilate = self._library.ci_dilate

        def run(source: ActiveSet, target: ActiveSet, outside_is_active: bool) -> None:
            buffers = (source.mask, between, target.mask, target.row_buffer)
            addresses = (buffer.ctypes.data for buffer in buffers)
            target.use_buffer(dilate(ctypes.byref(call), *addresses, outside_is_active))

        return run

    def _on_rows(self, function: ctypes._NamedFuncPointer, call: CConv | CPool, kept: tuple[object, ...]) -> RowKernel:
        reference = ctypes.byref(call)

        def run(active: ActiveSet, kernels: NativeKernels = self, kept: tuple[object, ...] = kept) -> None:
            # kernels and kept are held so that the memory behind the pointers stays
            function(kernels._threads, reference, active.rows.ctypes.data, active.count)

        return run

    def _packed(self, op: Conv) -> torch.Tensor:
        outputs, inputs, height, width = op.weight.shape
        sizes = (op.groups, outputs // op.groups, inputs, height * width)
        packed = MapBuffer.allocate((1, 1), self._library.ci_packed_size(*sizes), self.device).rows
        weight = op.weight.contiguous()
        self._library.ci_pack_weight(weight.data_ptr(), packed.data_ptr(), *sizes)
        return packed


def _by_tap(op: Conv) -> torch.Tensor:
    """[channels, 1, kernel_y, kernel_x] -> [taps, channels]."""
    return op.weight.flatten(1).t().contiguous()
