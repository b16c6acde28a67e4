"""Which kernels run on a device."""

from __future__ import annotations

import logging

import torch

from cacheinf_ros.engine.kernels.library import kernel_library
from cacheinf_ros.engine.kernels.native import NativeKernels
from cacheinf_ros.engine.kernels.reference import ReferenceKernels
from cacheinf_ros.errors import EngineError

_log = logging.getLogger(__name__)

Kernels = ReferenceKernels | NativeKernels


def choose_kernels(device: str, threads: int) -> Kernels:
    """The fastest kernels for a device.

    Raises:
        EngineError: torch does not know the device, or this machine does not have it.
    """
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        text = str(error).splitlines()[0]
        raise EngineError(f"device {device!r} cannot be used: {text}; use cpu, cuda or cuda:N") from None
    if torch.device(device).type != "cpu":
        return ReferenceKernels(torch.device(device))
    library = kernel_library()
    if library is None:
        _log.warning("the compiled kernels are not built (no C++ compiler?): using slower ones in torch")
        return ReferenceKernels(torch.device("cpu"))
    return NativeKernels(library, threads)
