"""The compiled library: its C types and functions. The other side is ``native/rows.h``."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_float, c_int, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path

from cacheinf_ros.graph.window import Window

_PATH = Path(__file__).parent / "libcacheinf_kernels.so"


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


class CConv(Structure):
    """``ci_conv``."""

    _fields_ = [
        ("window", CWindow),
        ("groups", c_int32), ("in_channels", c_int32), ("out_channels", c_int32), ("activation", c_int32),
        ("low", c_float), ("high", c_float),
        ("in_pitch", c_int64), ("out_pitch", c_int64), ("residual_pitch", c_int64),
        ("input", c_void_p), ("weight", c_void_p), ("bias", c_void_p), ("residual", c_void_p), ("out", c_void_p),
    ]  # fmt: skip


class CPool(Structure):
    """``ci_pool_window``."""

    _fields_ = [
        ("window", CWindow),
        ("channels", c_int32), ("average", c_int32), ("count_padding", c_int32), ("reserved", c_int32),
        ("in_pitch", c_int64), ("out_pitch", c_int64),
        ("input", c_void_p), ("out", c_void_p),
    ]  # fmt: skip


_SIGNATURES: dict[str, tuple[type | None, list[type]]] = {
    "ci_threads_create": (c_void_p, [c_int]),
    "ci_threads_destroy": (None, [c_void_p]),
    "ci_instruction_set": (c_char_p, []),
    "ci_packed_size": (c_int64, [c_int] * 4),
    "ci_pack_weight": (None, [c_void_p, c_void_p, *[c_int] * 4]),
    "ci_conv_rows": (None, [c_void_p, POINTER(CConv), c_void_p, c_int]),
    "ci_depthwise_rows": (None, [c_void_p, POINTER(CConv), c_void_p, c_int]),
    "ci_pool_rows": (None, [c_void_p, POINTER(CPool), c_void_p, c_int]),
    "ci_dilate": (c_int, [POINTER(CWindow), c_void_p, c_void_p, c_void_p, c_void_p, c_int]),
}


@cache
def kernel_library() -> ctypes.CDLL | None:
    """The library, or None where it was not built (no C++ compiler)."""
    if not _PATH.is_file():
        return None
    library = ctypes.CDLL(str(_PATH))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
