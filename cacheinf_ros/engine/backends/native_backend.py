# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The kernels compiled from C++, on the CPU, with a thread pool of their own."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import c_double, c_float, c_int32

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.delta_threshold import DeltaThreshold
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.executable import Executable
from cacheinf_ros.engine.execution.native_executor import NativeExecutor, c_tap_table
from cacheinf_ros.engine.execution.propagation import TapTable
from cacheinf_ros.engine.input import Image, InputWriter
from cacheinf_ros.engine.kernels.abi import CInput, CShift, CView, failure
from cacheinf_ros.engine.kernels.int8_kernels import Int8Kernels, to_levels
from cacheinf_ros.engine.kernels.native_kernels import NativeKernels
from cacheinf_ros.engine.kernels.prepared import PreparedKernel
from cacheinf_ros.engine.kernels.reference_kernels import ReferenceKernels
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.errors import EngineError
from cacheinf_ros.geometry import TILE
from cacheinf_ros.graph import SharedValues
from cacheinf_ros.graph.ir import Levels, Operator

# For each thread 1.5 MiB, more than an L2 cache of 1 MiB, since what a strip reads and writes only once need not stay
# there. Measured on MobileNetV2: 0.5 to 2 MiB take the same time with one thread; with two, smaller parts wait longer
# for each other.
_STRIP_BYTES = 3 << 19


class NativeBackend:
    """The :class:`Backend` of compiled kernels on the CPU; torch computes the operators that have none.

    Attributes:
        name: for messages: the instruction set and the threads.
        device: the CPU.
        library: the compiled functions.
        threads: the ``ci_threads``, alive as long as this object.
        takes_levels: whether it was made for graphs with levels.
        floats, mixes_floats: see :class:`Backend`.
        strip_bytes: see :class:`Backend`.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        threads: int,
        *,
        bfloat16: bool = False,
        int8: bool = False,
        shared: SharedValues | None = None,
        tiles: bool = True,
    ) -> None:
        """Start the threads.

        In bfloat16 and int8, what is left in float32 is computed by one kernel for any number of pixels: sums in
        another order could round differently.

        Args:
            bfloat16: whether feature maps are kept in bfloat16.
            int8: whether graphs have levels.
            shared: holds packed weights for all backends that are given it.
            tiles: whether convolutions of bfloat16 and of levels are computed by matrix tiles (AMX) where the machine
                has them.

        Raises:
            EngineError: the system has no threads left.
        """
        self.library = library
        self.device = torch.device("cpu")
        created: int | None = library.ci_threads_create(threads)
        if created is None:
            raise EngineError(
                f"the system does not give {threads} threads: lower 'threads', or raise its limit (ulimit -u)"
            )
        self.threads: int = created
        self._count = threads
        self._kernels = NativeKernels(library, shared or SharedValues(), tiles=tiles)
        self._int8 = Int8Kernels(library, self._kernels)
        self.takes_levels = int8
        self.floats = torch.bfloat16 if bfloat16 else torch.float32
        self.mixes_floats = False
        self.strip_bytes = threads * _STRIP_BYTES
        self._torch = ReferenceKernels(self.device)
        precision = "bfloat16, " if bfloat16 else "int8, " if int8 else ""
        amx = " and amx" if precision and self._kernels.uses_tiles else ""
        instructions = library.ci_instruction_set().decode() + amx
        self.name = f"native ({instructions}, {precision}{threads} threads)"
        # not at the interpreter's exit: a daemon thread may be in a kernel then, and the threads end with the process
        weakref.finalize(self, library.ci_threads_destroy, self.threads).atexit = False

    def prepare(
        self, operator: Operator, sources: Sequence[MapBuffer], channels: int, out: Levels | torch.dtype | None = None
    ) -> PreparedKernel:
        """Implement :meth:`Backend.prepare`."""
        levels = out if isinstance(out, Levels) else None
        if levels is not None or any(source.levels is not None for source in sources):
            return PreparedKernel(call=self._int8.prepare(operator, sources, channels, levels))
        floats = out if isinstance(out, torch.dtype) else torch.float32
        call = self._kernels.prepare(operator, sources, channels, floats)
        if call is None:
            return PreparedKernel(function=self._torch.prepare(operator, sources, channels))
        is_steady = self.takes_levels or self.floats is torch.bfloat16
        return PreparedKernel(call=call, alternative=None if is_steady else self._kernels.alternative(call))

    def executor(self, executable: Executable) -> NativeExecutor:
        """Implement :meth:`Backend.executor`."""
        return NativeExecutor(executable, self.library, self.threads, self._count)

    def input(self, preprocessor: Preprocessor, target: MapBuffer, *, on_host: bool = False) -> InputWriter:
        """Implement :meth:`Backend.input`."""
        return NativeInputWriter(preprocessor, target, self.library, self.threads)

    def shift(self, moves: Sequence[tuple[MapBuffer, int, int]]) -> None:
        """Implement :meth:`Backend.shift`."""
        by_size = sorted(moves, key=lambda move: -move[0].pixels.numel())
        # threads start with neighbouring tasks: each with large ones and small ones
        dealt = [move for i in range(self._count) for move in by_size[i :: self._count]]
        encoded = [
            CShift(
                pixels=b.pixels.data_ptr(),
                height=b.size[0],
                width=b.size[1],
                channels=b.pixels.shape[1],
                dx=dx,
                dy=dy,
                value_bytes=b.pixels.element_size(),
            )
            for b, dx, dy in dealt
        ]
        if status := self.library.ci_shift_maps(self.threads, (CShift * len(encoded))(*encoded), len(encoded)):
            raise failure("ci_shift_maps", status)

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Keep the threads awake within the context until a program has run: waking one takes up to milliseconds."""
        self.library.ci_threads_keep_awake(self.threads, True)
        try:
            yield
        finally:
            self.library.ci_threads_keep_awake(self.threads, False)


class NativeInputWriter(InputWriter):
    """The :class:`InputWriter` of compiled kernels on the CPU."""

    def __init__(self, preprocessor: Preprocessor, target: MapBuffer, library: ctypes.CDLL, threads: int) -> None:
        """Prepare a writer; ``threads`` are the ``ci_threads``, which must live as long as this object is used."""
        table = torch.from_numpy(preprocessor.table)
        # values as the map holds them; 16 bits as integers of the same bits, as numpy has no bfloat16
        kept = table.to(target.pixels.dtype) if target.levels is None else to_levels(table, target.levels)
        self._kept = (kept.view(torch.int16) if kept.itemsize == 2 else kept).numpy()
        super().__init__(preprocessor, target)
        self._library = library
        self._threads = threads
        height, width = preprocessor.size
        self._tiles = np.empty((-(-height // TILE), -(-width // TILE)), np.uint8)
        self._scratch = np.empty(0, np.uint8)

    def set_threshold(self, delta: DeltaThreshold | None) -> None:
        """Implement :meth:`InputWriter.set_threshold`."""
        super().set_threshold(delta)
        weight = self._delta.weight
        self._arguments = CInput(
            height=self._preprocessor.size[0],
            width=self._preprocessor.size[1],
            order=(c_int32 * 3)(*self._preprocessor.order),
            threshold=self._delta.squared_threshold,
            weight=(c_float * 3)(*((1.0,) * 3 if weight is None else (float(w) ** 2 for w in weight))),
            table=self._preprocessor.table.ctypes.data,
            kept=self._kept.ctypes.data,
            value_bytes=self._kept.itemsize,
            composed=self._composed.ctypes.data,
            seen=self.seen.ctypes.data,
            out=self._target.pixels.data_ptr(),
            pitch=self._target.pixels.stride(0),
        )

    def write(self, image: Image, changed: ActiveSet, *, everything: bool) -> None:
        """Implement :meth:`InputWriter.write`."""
        status = self._library.ci_write_input(
            self._threads, ctypes.byref(self._arguments), image.ctypes.data, self._touched.address, changed.address,
            everything,
        )  # fmt: skip
        if status:
            raise failure("ci_write_input", status)

    def paint(
        self, resized: Image, motion: Motion, unseen: NDArray[np.uint8] | None, changed: ActiveSet, *, everything: bool
    ) -> None:
        """Implement :meth:`InputWriter.paint`."""
        view = self._c_view(motion, unseen)
        status = self._library.ci_paint_input(
            self._threads, ctypes.byref(self._arguments), resized.ctypes.data, ctypes.byref(view), changed.address,
            everything,
        )  # fmt: skip
        if status:
            raise failure("ci_paint_input", status)

    def _propagate(self, table: TapTable, blocks: ActiveSet) -> None:
        needed = blocks.size[0] * self._preprocessor.size[1]
        if len(self._scratch) < needed:
            self._scratch = np.empty(needed, np.uint8)
        c = c_tap_table(table)
        self._library.ci_propagate(ctypes.byref(c), blocks.address, self._touched.address, self._scratch.ctypes.data)

    def _c_view(self, motion: Motion, unseen: NDArray[np.uint8] | None) -> CView:
        return CView(
            to_frame=(c_double * 9)(*motion.matrix.ravel()),
            back=(c_double * 9)(*motion.inverse().matrix.ravel()),
            marked=self._touched.mask.ctypes.data,
            unseen=None if unseen is None else unseen.ctypes.data,
            tiles=self._tiles.ctypes.data,
        )
