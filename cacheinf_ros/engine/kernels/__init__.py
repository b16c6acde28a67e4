# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Operators on listed pixels: a reference in torch, and a compiled library that is tested against it."""

from cacheinf_ros.engine.kernels.prepared import NativeCall, PreparedKernel
from cacheinf_ros.engine.kernels.reference_kernels import ReferenceKernels

__all__ = ["NativeCall", "PreparedKernel", "ReferenceKernels"]
