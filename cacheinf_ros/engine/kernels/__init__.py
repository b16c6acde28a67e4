# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Row-sparse kernels: a plain reference in torch, and a compiled library that is tested against it."""

from cacheinf_ros.engine.kernels.choose import Kernels, choose_kernels
from cacheinf_ros.engine.kernels.native import NativeCall, NativeKernels
from cacheinf_ros.engine.kernels.reference import ReferenceKernels, RowFunction

__all__ = ["Kernels", "NativeCall", "NativeKernels", "ReferenceKernels", "RowFunction", "choose_kernels"]
