# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The device of the Triton kernels in tests: the interpreter, or a GPU with ``CACHEINF_TEST_DEVICE=cuda``."""

from __future__ import annotations

import os

import torch
from interpreted_bfloat16 import repair
from quick_interpreter import hasten

from cacheinf_ros.engine.backends import NativeBackend
from cacheinf_ros.engine.backends.triton_backend import TritonBackend
from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.gpu.pixel_launch import Tiles
from cacheinf_ros.engine.gpu.triton_kernels import TritonKernels
from cacheinf_ros.engine.kernels.kernel_library import kernel_library

DEVICE_NAME = os.environ.get("CACHEINF_TEST_DEVICE", "cpu")
DEVICE = torch.device(DEVICE_NAME)
if DEVICE_NAME == "cpu":
    repair()
    hasten()
TILES = Tiles.interpreted() if DEVICE_NAME == "cpu" else None
_LIBRARY = kernel_library()
HOST = NativeBackend(_LIBRARY, 1) if _LIBRARY else None
"""The native backend, which compares frames on the CPU."""
TRITON = TritonBackend(DEVICE, TILES, host=HOST, compares=False)
HALVES = [
    TritonBackend(DEVICE, TILES, host=HOST, floats=floats, compares=False) for floats in (torch.float16, torch.bfloat16)
]
"""Backends whose feature maps have 16 bits."""
KERNELS = TritonKernels(DEVICE, TILES or Tiles.of_floats(torch.float32))


def on_test_device(source: MapBuffer) -> MapBuffer:
    """Return a map on the test device, with the same pitch; the map itself if it is already there."""
    if DEVICE_NAME == "cpu":
        return source
    pixels = torch.empty_strided(source.pixels.shape, source.pixels.stride(), device=DEVICE)
    return MapBuffer(pixels=pixels.copy_(source.pixels), size=source.size)
