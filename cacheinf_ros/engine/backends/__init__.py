# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The backends that run programs: compiled kernels on the CPU, Triton kernels on a GPU, or plain torch anywhere."""

from cacheinf_ros.engine.backends.backend import Backend, Executor
from cacheinf_ros.engine.backends.backend_choice import choose_backend
from cacheinf_ros.engine.backends.native_backend import NativeBackend
from cacheinf_ros.engine.backends.reference_backend import ReferenceBackend

__all__ = ["Backend", "Executor", "NativeBackend", "ReferenceBackend", "choose_backend"]
