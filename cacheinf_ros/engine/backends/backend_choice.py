# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Chooses the backend that runs on a device."""

from __future__ import annotations

import logging

import torch

from cacheinf_ros.engine.backends.backend import Backend
from cacheinf_ros.engine.backends.native_backend import NativeBackend
from cacheinf_ros.engine.backends.reference_backend import ReferenceBackend
from cacheinf_ros.engine.engine_config import Precision
from cacheinf_ros.engine.half_maps import kept_floats
from cacheinf_ros.engine.kernels.kernel_library import kernel_library
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import SharedValues

_log = logging.getLogger(__name__)


def choose_backend(
    device: str, threads: int, precision: Precision = Precision.FLOAT32, shared: SharedValues | None = None
) -> Backend:
    """Return the fastest backend for a device. Where it lacks the precision, a warning says that float32 is used.

    Args:
        shared: the shared values of the model, whose packed weights all its backends then share.

    Raises:
        EngineError: torch does not know the device, this machine does not have it, or it is not the first GPU that the
            process sees; the precision is float16 and the device no GPU; or the compiled kernels are of another
            version or machine.
    """
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        text = str(error).splitlines()[0]
        raise EngineError(f"device {device!r} cannot be used: {text}; use cpu or cuda") from None
    floats = kept_floats(device, precision)
    if torch.device(device).type != "cpu":
        return _on_gpu(torch.device(device), threads, precision, floats, shared)
    library = kernel_library()
    bfloat16 = precision is Precision.BFLOAT16
    if library is None:
        if precision in (Precision.BFLOAT16, Precision.INT8):
            _log.warning("precision %s needs the compiled kernels: computing in float32", precision.value)
        _log.warning("the compiled kernels are not built (no C++ compiler?): using slower ones in torch")
        return ReferenceBackend(torch.device("cpu"), threads)
    if bfloat16 and not library.ci_has_bfloat16():
        _log.warning(
            "precision bfloat16 is faster only with AVX512_BF16, or ARM's I8MM and BF16, which this processor lacks: "
            "feature maps take half of the memory, and convolutions multiply in float32"
        )
    return NativeBackend(library, threads, bfloat16=bfloat16, int8=precision is Precision.INT8, shared=shared)


def _on_gpu(
    device: torch.device, threads: int, precision: Precision, floats: torch.dtype, shared: SharedValues | None
) -> Backend:
    """Return the backend with kernels in Triton where it is installed and knows the device, else plain torch."""
    if precision is Precision.INT8:
        _log.warning("precision int8 needs device cpu: computing in float32")
    if device.type == "cuda":
        if device.index not in (None, torch.cuda.current_device()):
            raise EngineError(
                f"device {device} cannot be used: frames are computed on the first GPU that the process sees. Choose "
                "it with CUDA_VISIBLE_DEVICES in its environment, and give device cuda"
            )
        try:
            from cacheinf_ros.engine.backends.triton_backend import TritonBackend
        except ImportError as error:
            _log.warning("no Triton (%s): pip install triton; using slower kernels in torch", error)
        else:
            library = kernel_library()
            host = NativeBackend(library, threads) if library else None
            return TritonBackend(device, host=host, floats=floats, shared=shared)
    if precision in (Precision.FLOAT16, Precision.BFLOAT16):
        _log.warning("precision %s needs the kernels in Triton: computing in float32", precision.value)
    return ReferenceBackend(device)
