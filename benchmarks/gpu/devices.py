# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The speed of GPUs by their makers' figures, and how much of it is assumed to be reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum


class Arithmetic(Enum):
    """How matrix products are computed."""

    TF32X3 = "float32"
    """Factors are float32, multiplied as three products of TF32: what the Triton kernels do by default."""
    BFLOAT16 = "bfloat16"
    """Factors are rounded to bfloat16, and so are feature maps."""
    FLOAT16 = "float16"
    """Float16 is as fast as bfloat16, with maps as large; the dense engine that frames are compared with uses it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU at its highest clock. Rates are those of the maker, without structured sparsity.

    Attributes:
        multiprocessors: number of multiprocessors, each with Tensor Cores.
        memory_gb_s: bandwidth of its memory, 10**9 bytes per second.
        float16_tflops: rate of the Tensor Cores; bfloat16 has the same.
        tf32_tflops: rate of the Tensor Cores.
        float32_tflops: rate of all other arithmetic.
        bus_gb_s: bandwidth of a copy between the CPU's memory and its own, 10**9 bytes per second.
        launch_gap_us: microseconds from a kernel's end to the next one's start in a CUDA graph, whatever they compute;
            it is not a figure of the maker but assumed, see :class:`Assumptions`.
        copy_us: microseconds of the smallest copy between the CPU's memory and its own; assumed.
        shares_memory: whether it reads the CPU's memory as its own.
    """

    name: str
    multiprocessors: int
    memory_gb_s: float
    float16_tflops: float
    tf32_tflops: float
    float32_tflops: float
    bus_gb_s: float
    launch_gap_us: float
    copy_us: float
    shares_memory: bool = False

    def product_tflops(self, arithmetic: Arithmetic) -> float:
        """Return the rate of matrix products on Tensor Cores, in TFLOPS."""
        return self.tf32_tflops / 3 if arithmetic is Arithmetic.TF32X3 else self.float16_tflops


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """What no maker states, and is assumed here.

    It is not fitted to a measurement: frames on an H200 took several times as long as is predicted with it
    (docs/jetson.md).

    Attributes:
        of_memory: share of the memory bandwidth that a launch reaches.
        of_peak: share of the peak rate of products that a multiprocessor with work reaches.
        programs_at_once: programs that a multiprocessor holds at a time.
        start_us: microseconds in which a program starts, reads the list's length, and exits where its place is behind
            the list's end.
    """

    of_memory: float
    of_peak: float
    programs_at_once: int = 8
    start_us: float = 1.0


SPARSE = Assumptions(of_memory=0.6, of_peak=0.3)
"""The assumptions for the Triton kernels, which gather rows."""
DENSE = Assumptions(of_memory=0.8, of_peak=0.6)
"""The assumptions for a good dense engine such as TensorRT, which chooses layouts and tiles for each layer."""

# Jetson Orin Series technical brief (NVIDIA, v1.2) and data sheets. AGX Orin 64 GB: 2048 cores in 16 multiprocessors at
# 1.3 GHz, 5.3 TFLOPS float32, 170 sparse int8 TOPS of the GPU (so 85 dense, and 42.5 TFLOPS float16), 204.8 GB/s. Orin
# Nano 8 GB: 1024 cores in 8 at 625 MHz, 40 sparse int8 TOPS, 68 GB/s. TF32 has half the rate of float16. CPU and GPU
# share the memory: a copy reads and writes it.
ORIN_AGX = Device(
    name="Jetson AGX Orin 64 GB", multiprocessors=16, memory_gb_s=204.8, float16_tflops=42.5, tf32_tflops=21.3,
    float32_tflops=5.3, bus_gb_s=102.4, launch_gap_us=4.0, copy_us=15.0, shares_memory=True,
)  # fmt: skip
ORIN_NANO = Device(
    name="Jetson Orin Nano 8 GB", multiprocessors=8, memory_gb_s=68.0, float16_tflops=10.0, tf32_tflops=5.0,
    float32_tflops=1.28, bus_gb_s=34.0, launch_gap_us=6.0, copy_us=20.0, shares_memory=True,
)  # fmt: skip
# H100 SXM5 data sheet and Hopper white paper (NVIDIA): 132 multiprocessors, 3.35 TB/s, 989.4 TFLOPS float16 and 494.7
# TF32 dense, 66.9 float32; PCIe 5.0 x16, 64 GB/s each way.
H100 = Device(
    name="H100 SXM", multiprocessors=132, memory_gb_s=3350.0, float16_tflops=989.4, tf32_tflops=494.7,
    float32_tflops=66.9, bus_gb_s=64.0, launch_gap_us=1.5, copy_us=10.0,
)  # fmt: skip
# H200 data sheet (NVIDIA): an H100 with 4.8 TB/s. The gap was measured there: docs/gpu.md.
H200 = replace(H100, name="H200", memory_gb_s=4800.0, launch_gap_us=1.7)
DEVICES: Mapping[str, Device] = {"orin-agx": ORIN_AGX, "orin-nano": ORIN_NANO, "h100": H100, "h200": H200}
"""The devices by the names that the command line takes."""
