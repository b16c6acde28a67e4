# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The compiled library: its C types and functions. The other side is ``native/rows.h``."""

from __future__ import annotations

import ctypes
from ctypes import Structure, c_char_p, c_float, c_int, c_int32, c_int64, c_void_p
from enum import IntEnum
from functools import cache
from pathlib import Path

from cacheinf_ros.graph.window import Window

_PATH = Path(__file__).parent / "libcacheinf_kernels.so"


class KernelKind(IntEnum):
    """``ci_kernel``: which kernel a parameter structure is for."""

    CONV = 0
    CONV_IN_PLACE = 1
    CONV_BFLOAT16 = 2
    DEPTHWISE = 3
    POOL = 4
    ELEMENTWISE = 5
    CHANNEL_NORM = 6
    CHANNEL_SOFTMAX = 7
    RESAMPLE = 8
    PIXEL_SHUFFLE = 9
    SELECT = 10
    GLOBAL_MEAN = 11


class CWindow(Structure):
    """``ci_window``."""

    _fields_ = [
        (name, c_int32)
        for name in (
            "in_height", "in_width", "out_height", "out_width", "kernel_y", "kernel_x", "stride_y", "stride_x",
            "dilation_y", "dilation_x", "pad_y", "pad_x",
        )
    ]  # fmt: skip

    @classmethod
    def of(cls, window: Window) -> CWindow:
        """The same window."""
        w = window
        return cls(*w.in_size, *w.out_size, *w.kernel, *w.stride, *w.dilation, *w.padding)


class CActivation(Structure):
    """``ci_activation``."""

    _fields_ = [("kind", c_int32), ("low", c_float), ("high", c_float), ("alpha", c_float), ("slope", c_void_p)]


class CConv(Structure):
    """``ci_conv``."""

    _fields_ = [
        ("window", CWindow),
        ("groups", c_int32), ("in_channels", c_int32), ("out_channels", c_int32), ("residual_last", c_int32),
        ("activation", CActivation),
        ("in_pitch", c_int64), ("residual_pitch", c_int64),
        ("input", c_void_p), ("weight", c_void_p), ("bias", c_void_p), ("residual", c_void_p),
    ]  # fmt: skip


class CPool(Structure):
    """``ci_pool``."""

    _fields_ = [
        ("window", CWindow),
        ("channels", c_int32), ("average", c_int32), ("count_padding", c_int32), ("reserved", c_int32),
        ("in_pitch", c_int64), ("input", c_void_p),
    ]  # fmt: skip


class CElementwise(Structure):
    """``ci_elementwise``."""

    _fields_ = [
        ("combine", c_int32), ("channels", c_int32),
        ("activation", CActivation),
        ("a_pitch", c_int64), ("b_pitch", c_int64),
        ("a", c_void_p), ("b", c_void_p), ("scale", c_void_p), ("shift", c_void_p),
    ]  # fmt: skip


class CChannelNorm(Structure):
    """``ci_channel_norm``."""

    _fields_ = [
        ("channels", c_int32), ("epsilon", c_float),
        ("in_pitch", c_int64), ("input", c_void_p), ("weight", c_void_p), ("bias", c_void_p),
    ]  # fmt: skip


class CChannelSoftmax(Structure):
    """``ci_channel_softmax``."""

    _fields_ = [("channels", c_int32), ("log", c_int32), ("in_pitch", c_int64), ("input", c_void_p)]


class CResample(Structure):
    """``ci_resample``."""

    _fields_ = [
        ("channels", c_int32), ("in_width", c_int32), ("out_width", c_int32), ("taps_y", c_int32), ("taps_x", c_int32),
        ("fill", c_float),
        ("in_pitch", c_int64), ("input", c_void_p),
        ("index_y", c_void_p), ("index_x", c_void_p), ("weight_y", c_void_p), ("weight_x", c_void_p),
    ]  # fmt: skip


class CPixelShuffle(Structure):
    """``ci_pixel_shuffle``."""

    _fields_ = [
        ("channels", c_int32), ("out_width", c_int32), ("factor", c_int32), ("phase_major", c_int32),
        ("in_pitch", c_int64), ("input", c_void_p),
    ]  # fmt: skip


class CSelect(Structure):
    """``ci_select``."""

    _fields_ = [
        ("channels", c_int32), ("reserved", c_int32),
        ("in_pitch", c_int64), ("input", c_void_p), ("index", c_void_p),
    ]  # fmt: skip


class CGlobalMean(Structure):
    """``ci_global_mean``."""

    _fields_ = [("channels", c_int32), ("pixels", c_int32), ("in_pitch", c_int64), ("input", c_void_p)]


class CShift(Structure):
    """``ci_shift``."""

    _fields_ = [
        ("rows", c_void_p), ("height", c_int32), ("width", c_int32), ("channels", c_int32), ("dx", c_int32),
        ("dy", c_int32), ("reserved", c_int32),
    ]  # fmt: skip


_SIGNATURES: dict[str, tuple[type | None, list[type]]] = {
    "ci_threads_create": (c_void_p, [c_int]),
    "ci_threads_destroy": (None, [c_void_p]),
    "ci_threads_keep_awake": (None, [c_void_p, c_int]),
    "ci_instruction_set": (c_char_p, []),
    "ci_has_bfloat16": (c_int, []),
    "ci_packed_columns": (c_int, []),
    "ci_packed_size": (c_int64, [c_int] * 4),
    "ci_pack_weight": (None, [c_void_p, c_void_p, *[c_int] * 4]),
    "ci_shift_maps": (None, [c_void_p, c_void_p, c_int]),
    "ci_run_kernel": (None, [c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p, c_int64]),
}


@cache
def kernel_library() -> ctypes.CDLL | None:
    """The library, or None where it was not built (no C++ compiler)."""
    return load_library(_PATH) if _PATH.is_file() else None


def load_library(path: Path) -> ctypes.CDLL:
    """The library in a file, its functions declared."""
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
