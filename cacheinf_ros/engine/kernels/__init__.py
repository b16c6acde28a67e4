"""Row-sparse kernels: a plain reference in torch, and a compiled library that is tested against it."""

from cacheinf_ros.engine.kernels.choose import choose_kernels
from cacheinf_ros.engine.kernels.reference import ReferenceKernels, RowKernel

__all__ = ["ReferenceKernels", "RowKernel", "choose_kernels"]
