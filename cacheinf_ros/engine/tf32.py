# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""float32 that means float32 on a GPU: cuDNN rounds the factors of convolutions to TF32 unless it is told not to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

import torch

SETTING = threading.RLock()
"""The lock that is held while torch computes with the setting, which is one for the whole process."""
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@contextmanager
def tf32(device: torch.device, *, allowed: bool, benchmark: bool = False) -> Iterator[None]:
    """Have torch's convolutions on a GPU round float32 to TF32, or not; on other devices do nothing.

    Other threads that want to set it wait meanwhile. The setting before is restored.

    Args:
        benchmark: whether cuDNN tries its algorithms for a convolution that it has not seen, and takes the fastest.
    """
    if device.type != "cuda":
        yield
        return
    cudnn = torch.backends.cudnn
    with SETTING:
        kept = {"enabled": cudnn.enabled, "deterministic": cudnn.deterministic}
        with cudnn.flags(benchmark=benchmark, allow_tf32=allowed, **kept):
            yield


def in_full_precision(run: Callable[Arguments, Result], device: torch.device) -> Callable[Arguments, Result]:
    """Wrap a function so that its convolutions have all 24 bits of float32; unchanged on devices other than a GPU.

    Otherwise convolutions of whole images would have fewer bits than products of listed pixels, and cached values would
    differ from dense ones.
    """
    if device.type != "cuda":
        return run

    def precise(*arguments: Arguments.args, **keywords: Arguments.kwargs) -> Result:
        with tf32(device, allowed=False):
            return run(*arguments, **keywords)

    return precise
