# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Prepared kernels: how an operator is computed on listed pixels."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import Structure
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from cacheinf_ros.engine.kernels.abi import AnyKernelKind

if TYPE_CHECKING:  # importing it needs Triton
    from cacheinf_ros.engine.gpu.pixel_launch import PixelLaunch

PixelFunction = Callable[[torch.Tensor], torch.Tensor]
"""A function from indices of output pixels, int64 [n] on the device, to their values, float32 [n, channels]."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NativeCall:
    """A compiled kernel with its parameters.

    Attributes:
        kind: which kernel.
        params: the structure that it takes.
        kept: keeps everything alive that the parameters point to.
    """

    kind: AnyKernelKind
    params: Structure
    kept: tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedKernel:
    """How an operator is computed, by whichever backend has prepared it.

    Attributes:
        call: the compiled kernel; None: there is none.
        function: what torch does where there is no compiled kernel.
        alternative: a compiled kernel that may be faster for many pixels.
        launch: the Triton kernel for a GPU.
    """

    call: NativeCall | None = None
    function: PixelFunction | None = None
    alternative: NativeCall | None = None
    launch: PixelLaunch | None = None

    @property
    def is_timeable(self) -> bool:
        """Whether a compiled kernel of this package computes it, so that measured times mean something."""
        return self.call is not None or (self.launch is not None and self.launch.is_compiled)
