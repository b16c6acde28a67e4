# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The C interface of the compiled kernels: the structures, constants and functions of ``native/kernels.h``.

:func:`check` compares sizes, offsets and constants with those that the library was compiled with.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from ctypes import Structure, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_void_p
from enum import IntEnum

from cacheinf_ros.engine.delta_threshold import POOLING
from cacheinf_ros.engine.execution.border import Border
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import ActivationKind, Window
from cacheinf_ros.graph.ir import Combine, Levels

NEVER = 2**31 - 1
"""A number of active pixels that is never reached."""


class KernelKind(IntEnum):
    """The kernels on float32 maps, from the enumeration ``ci_kernel``."""

    CONV = 0
    CONV_IN_PLACE = 1
    DEPTHWISE = 2
    POOL = 3
    ELEMENTWISE = 4
    CHANNEL_NORM = 5
    CHANNEL_SOFTMAX = 6
    RESAMPLE = 7
    PIXEL_SHUFFLE = 8
    SELECT = 9
    GLOBAL_MEAN = 10


class BFloat16KernelKind(IntEnum):
    """The kernels of ``ci_kernel`` on bfloat16 maps, and those that convert between bfloat16 and float32."""

    CONV_BFLOAT16 = 11
    CONV_BFLOAT16_WIDENED = 12
    DEPTHWISE_BFLOAT16 = 13
    POOL_BFLOAT16 = 14
    ELEMENTWISE_BFLOAT16 = 15
    CHANNEL_NORM_BFLOAT16 = 16
    RESAMPLE_BFLOAT16 = 17
    PIXEL_SHUFFLE_BFLOAT16 = 18
    SELECT_BFLOAT16 = 19
    GLOBAL_MEAN_BFLOAT16 = 20
    WIDEN = 21
    NARROW = 22
    CONV_BFLOAT16_TILES = 33


class Int8KernelKind(IntEnum):
    """The kernels of ``ci_kernel`` on maps of levels, and the one that converts to and from levels."""

    CONV_INT8 = 23
    CONV_INT8_PAIRS = 24
    DEPTHWISE_INT8 = 25
    POOL_INT8 = 26
    ELEMENTWISE_INT8 = 27
    RESAMPLE_INT8 = 28
    PIXEL_SHUFFLE_INT8 = 29
    SELECT_INT8 = 30
    GLOBAL_MEAN_INT8 = 31
    CONVERT = 32
    CONV_INT8_TILES = 34


AnyKernelKind = KernelKind | BFloat16KernelKind | Int8KernelKind


class StepKind(IntEnum):
    """What a step of a program does, ``ci_step_kind``."""

    PROPAGATE_WINDOW = 0
    PROPAGATE_TAPS = 1
    UNION = 2
    DIFFERENCE = 3
    FILL_IF_ANY = 4
    COMPUTE = 5
    LOCAL_ROWS = 6
    FORWARD = 7
    NOTHING = 8


class ChangeKind(IntEnum):
    """How a pixel's change is measured, ``ci_criterion``."""

    MAXIMUM_CHANGE = 0
    SUM_OF_SQUARES = 1
    POOLED_SQUARES = 2


class Status(IntEnum):
    """The result of a call, ``ci_status``."""

    DONE = 0
    NO_MEMORY = 1
    NONSENSE = 2


class CWindow(Structure):
    """The structure ``ci_window``: a sliding window over an image."""

    _fields_ = [
        (name, c_int32)
        for name in (
            "in_height", "in_width", "out_height", "out_width", "kernel_y", "kernel_x", "stride_y", "stride_x",
            "dilation_y", "dilation_x", "pad_y", "pad_x",
        )
    ]  # fmt: skip

    @classmethod
    def of(cls, window: Window) -> CWindow:
        """Return the structure for a window."""
        w = window
        return cls(*w.in_size, *w.out_size, *w.kernel, *w.stride, *w.dilation, *w.padding)


class CActivation(Structure):
    """The structure ``ci_activation``: an activation function and its parameters."""

    _fields_ = [("kind", c_int32), ("low", c_float), ("high", c_float), ("alpha", c_float), ("slope", c_void_p)]


class CConv(Structure):
    """The structure ``ci_conv``: the parameters of a convolution."""

    _fields_ = [
        ("window", CWindow),
        ("groups", c_int32), ("in_channels", c_int32), ("out_channels", c_int32), ("residual_last", c_int32),
        ("activation", CActivation),
        ("in_pitch", c_int64), ("residual_pitch", c_int64),
        ("in", c_void_p), ("weight", c_void_p), ("bias", c_void_p), ("residual", c_void_p),
        ("whole_lines", c_int32), ("writes_floats", c_int32),
    ]  # fmt: skip


class CPool(Structure):
    """The structure ``ci_pool``: the parameters of a pooling."""

    _fields_ = [
        ("window", CWindow),
        ("channels", c_int32), ("average", c_int32), ("count_padding", c_int32), ("reserved", c_int32),
        ("in_pitch", c_int64), ("in", c_void_p),
    ]  # fmt: skip


class CElementwise(Structure):
    """The structure ``ci_elementwise``: the parameters of an element-wise operator."""

    _fields_ = [
        ("combine", c_int32), ("channels", c_int32),
        ("activation", CActivation),
        ("a_pitch", c_int64), ("b_pitch", c_int64),
        ("a", c_void_p), ("b", c_void_p), ("scale", c_void_p), ("shift", c_void_p),
    ]  # fmt: skip


class CChannelNorm(Structure):
    """The structure ``ci_channel_norm``: the parameters of a normalisation over channels."""

    _fields_ = [
        ("channels", c_int32), ("epsilon", c_float),
        ("in_pitch", c_int64), ("in", c_void_p), ("weight", c_void_p), ("bias", c_void_p),
    ]  # fmt: skip


class CChannelSoftmax(Structure):
    """The structure ``ci_channel_softmax``: the parameters of a softmax over channels."""

    _fields_ = [("channels", c_int32), ("log", c_int32), ("in_pitch", c_int64), ("in", c_void_p)]


class CResample(Structure):
    """The structure ``ci_resample``: the parameters of a resampling."""

    _fields_ = [
        ("channels", c_int32), ("in_width", c_int32), ("out_width", c_int32), ("taps_y", c_int32), ("taps_x", c_int32),
        ("fill", c_float),
        ("in_pitch", c_int64), ("in", c_void_p),
        ("index_y", c_void_p), ("index_x", c_void_p), ("weight_y", c_void_p), ("weight_x", c_void_p),
    ]  # fmt: skip


class CPixelShuffle(Structure):
    """The structure ``ci_pixel_shuffle``: the parameters of a pixel shuffle."""

    _fields_ = [
        ("channels", c_int32), ("out_width", c_int32), ("factor", c_int32), ("phase_major", c_int32),
        ("in_pitch", c_int64), ("in", c_void_p),
    ]  # fmt: skip


class CSelect(Structure):
    """The structure ``ci_select``: the parameters of a selection of channels."""

    _fields_ = [
        ("channels", c_int32), ("reserved", c_int32),
        ("in_pitch", c_int64), ("in", c_void_p), ("index", c_void_p),
    ]  # fmt: skip


class CGlobalMean(Structure):
    """The structure ``ci_global_mean``: the parameters of a mean over all pixels."""

    _fields_ = [("channels", c_int32), ("pixels", c_int32), ("in_pitch", c_int64), ("in", c_void_p)]


class CLevels(Structure):
    """The structure ``ci_levels``: what the levels of a map stand for."""

    _fields_ = [("scale", c_float), ("zero", c_int32)]

    @classmethod
    def of(cls, levels: Levels | None) -> CLevels:
        """Return the structure for levels; for None, which stands for floats, all its fields are 0."""
        return cls() if levels is None else cls(levels.scale, levels.zero)


class CConvInt8(Structure):
    """The structure ``ci_conv_int8``: the parameters of a convolution on levels."""

    _fields_ = [
        ("window", CWindow),
        ("groups", c_int32), ("in_channels", c_int32), ("out_channels", c_int32), ("residual_last", c_int32),
        ("activation", CActivation),
        ("in_pitch", c_int64), ("residual_pitch", c_int64),
        ("in", c_void_p), ("weight", c_void_p), ("bias", c_void_p), ("multiplier", c_void_p), ("residual", c_void_p),
        ("unit", c_float), ("residual_factor", c_float), ("residual_zero", c_int32), ("in_zero", c_int32),
        ("out", CLevels),
        ("whole_lines", c_int32), ("reserved", c_int32),
    ]  # fmt: skip


class CPoolInt8(Structure):
    """The structure ``ci_pool_int8``: the parameters of a pooling on levels."""

    _fields_ = [
        ("pool", CPool), ("factor", c_float), ("in_zero", c_int32), ("out_zero", c_int32), ("reserved", c_int32),
    ]  # fmt: skip


class CElementwiseInt8(Structure):
    """The structure ``ci_elementwise_int8``: the parameters of an element-wise operator on levels."""

    _fields_ = [("elementwise", CElementwise), ("a", CLevels), ("b", CLevels), ("out", CLevels)]


class CResampleInt8(Structure):
    """The structure ``ci_resample_int8``: the parameters of a resampling on levels."""

    _fields_ = [
        ("resample", CResample), ("factor", c_float), ("in_zero", c_int32), ("out_zero", c_int32), ("fill", c_int32),
    ]  # fmt: skip


class CGlobalMeanInt8(Structure):
    """The structure ``ci_global_mean_int8``: the parameters of a mean over all pixels, on levels."""

    _fields_ = [("mean", CGlobalMean), ("in", CLevels), ("out", CLevels)]


class CConvert(Structure):
    """The structure ``ci_convert``: the parameters of a conversion to or from levels."""

    _fields_ = [
        ("channels", c_int32), ("reserved", c_int32), ("in_pitch", c_int64), ("in", c_void_p), ("from", CLevels),
        ("to", CLevels),
    ]  # fmt: skip


class CShift(Structure):
    """The structure ``ci_shift``: a feature map that is to be moved by (dx, dy) pixels."""

    _fields_ = [
        ("pixels", c_void_p), ("height", c_int32), ("width", c_int32), ("channels", c_int32), ("dx", c_int32),
        ("dy", c_int32), ("value_bytes", c_int32),
    ]  # fmt: skip


class CSet(Structure):
    """The structure ``ci_set``: an active set."""

    _fields_ = [
        ("mask", c_void_p), ("listed", c_void_p), ("all", c_void_p), ("height", c_int32), ("width", c_int32),
        ("count", c_int32), ("reserved", c_int32),
    ]  # fmt: skip


class CTapTable(Structure):
    """The structure ``ci_tap_table``: the input pixels that each output pixel reads."""

    _fields_ = [("taps_y", c_int32), ("taps_x", c_int32), ("index_y", c_void_p), ("index_x", c_void_p)]


class CReplica(Structure):
    """The structure ``ci_replica``: a tensor of which another machine has a copy."""

    _fields_ = [
        ("first_row", c_int32), ("last_row", c_int32), ("stale_local", c_void_p), ("stale_remote", c_void_p),
    ]  # fmt: skip


class CStep(Structure):
    """The structure ``ci_step``: a step of a program."""

    _fields_ = [
        ("kind", c_int32), ("kernel", c_int32), ("params", c_void_p), ("first", c_void_p), ("second", c_void_p),
        ("target", c_void_p), ("out", c_void_p), ("pitch", c_int64), ("channels", c_int32), ("criterion", c_int32),
        ("threshold", c_float), ("alternative", c_int32), ("weight", c_void_p), ("alternative_params", c_void_p),
        ("alternative_from", c_int32), ("inwards", c_int32), ("value_bytes", c_int32), ("reserved", c_int32),
    ]  # fmt: skip


class CInput(Structure):
    """The structure ``ci_input``: how a frame is written into the model's input."""

    _fields_ = [
        ("height", c_int32), ("width", c_int32), ("order", c_int32 * 3), ("threshold", c_float),
        ("weight", c_float * 3), ("value_bytes", c_int32), ("table", c_void_p), ("kept", c_void_p),
        ("composed", c_void_p), ("seen", c_void_p), ("out", c_void_p), ("pitch", c_int64),
    ]  # fmt: skip


class CView(Structure):
    """The structure ``ci_view``: which part of a frame the input shows, and which tiles of it are marked."""

    _fields_ = [
        ("to_frame", c_double * 9), ("back", c_double * 9), ("marked", c_void_p), ("unseen", c_void_p),
        ("tiles", c_void_p),
    ]  # fmt: skip


class CLayoutEntry(Structure):
    """An entry of ``ci_layout``: the name and value of a size, an offset or a constant."""

    _fields_ = [("name", c_char_p), ("value", c_int64)]


_STRUCTURES: dict[str, type[Structure]] = {
    "ci_window": CWindow,
    "ci_activation": CActivation,
    "ci_conv": CConv,
    "ci_pool": CPool,
    "ci_elementwise": CElementwise,
    "ci_channel_norm": CChannelNorm,
    "ci_channel_softmax": CChannelSoftmax,
    "ci_resample": CResample,
    "ci_pixel_shuffle": CPixelShuffle,
    "ci_select": CSelect,
    "ci_global_mean": CGlobalMean,
    "ci_levels": CLevels,
    "ci_conv_int8": CConvInt8,
    "ci_pool_int8": CPoolInt8,
    "ci_elementwise_int8": CElementwiseInt8,
    "ci_resample_int8": CResampleInt8,
    "ci_global_mean_int8": CGlobalMeanInt8,
    "ci_convert": CConvert,
    "ci_set": CSet,
    "ci_tap_table": CTapTable,
    "ci_replica": CReplica,
    "ci_step": CStep,
    "ci_shift": CShift,
    "ci_input": CInput,
    "ci_view": CView,
}


_FUNCTIONS: dict[str, tuple[type | None, list[type]]] = {
    "ci_threads_create": (c_void_p, [c_int]),
    "ci_threads_destroy": (None, [c_void_p]),
    "ci_threads_keep_awake": (None, [c_void_p, c_int]),
    "ci_instruction_set": (c_char_p, []),
    "ci_has_bfloat16": (c_int, []),
    "ci_has_byte_dot": (c_int, []),
    "ci_has_tiles": (c_int, []),
    "ci_tile_steps": (c_int, [c_int, c_int]),
    "ci_packed_columns": (c_int, []),
    "ci_packed_size": (c_int64, [c_int] * 4),
    "ci_pack_weight": (None, [c_void_p, c_void_p, *[c_int] * 4]),
    "ci_shift_maps": (c_int, [c_void_p, c_void_p, c_int]),
    "ci_run_kernel": (c_int, [c_void_p, c_char_p, c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p, c_int64]),
    "ci_program_create": (c_void_p, [c_void_p, c_int64, c_int, c_int, c_int64, c_int64]),
    "ci_program_destroy": (None, [c_void_p]),
    "ci_program_run": (c_int, [c_void_p, c_void_p, *[c_int] * 4, c_void_p]),
    "ci_propagate": (None, [c_void_p] * 4),
    "ci_write_input": (c_int, [*[c_void_p] * 5, c_int]),
    "ci_paint_input": (c_int, [*[c_void_p] * 5, c_int]),
}


def failure(function: str, status: int) -> EngineError:
    """Return the error to raise where a function returned another :class:`Status` than ``DONE``, which is 0.

    Callers compare the status themselves, as they do so several times a frame.
    """
    if status == Status.NO_MEMORY:
        return EngineError(f"{function}: there is not enough memory: take a smaller model or input")
    return EngineError(f"{function} was asked for what there is not: a bug, please report it")


def activation_number(kind: ActivationKind) -> int:
    """Return the number of an activation function in ``ci_activation_kind``."""
    return list(ActivationKind).index(kind)


def combine_number(combine: Combine | None) -> int:
    """Return the number of an operation in ``ci_combine``; None stands for the first input alone."""
    return 0 if combine is None else 1 + list(Combine).index(combine)


def declare(library: ctypes.CDLL) -> None:
    """Declare the library's functions, and check that both sides have the same sizes, offsets and constants.

    Raises:
        EngineError: the library was built from another version of the package.
    """
    try:
        functions = {name: getattr(library, name) for name in (*_FUNCTIONS, "ci_layout")}
    except AttributeError as error:
        raise _outdated(library, str(error)) from None
    for name, (result, arguments) in _FUNCTIONS.items():
        functions[name].restype, functions[name].argtypes = result, arguments
    layout = functions["ci_layout"]
    layout.restype, layout.argtypes = ctypes.POINTER(CLayoutEntry), []
    check(library, dict(_entries(layout())))


def check(library: ctypes.CDLL, compiled: Mapping[str, int]) -> None:
    """Raise :class:`EngineError` where sizes, offsets and constants are not those of this file.

    Args:
        library: named in the error.
        compiled: the values of ``ci_layout``, by name.
    """
    ours = dict(_layout())
    differing = sorted(name for name in {*ours, *compiled} if ours.get(name) != compiled.get(name))
    if differing:
        raise _outdated(library, f"they differ in {', '.join(differing[:5])}")


def _outdated(library: ctypes.CDLL, why: str) -> EngineError:
    return EngineError(f"{library._name}: the kernels were built from another version: make build ({why})")


def _entries(layout: ctypes._Pointer[CLayoutEntry]) -> Iterator[tuple[str, int]]:
    index = 0
    while (entry := layout[index]).name is not None:
        yield entry.name.decode(), entry.value
        index += 1


def _layout() -> Iterator[tuple[str, int]]:
    for name, structure in _STRUCTURES.items():
        yield name, ctypes.sizeof(structure)
        for field, *_ in structure._fields_:
            yield f"{name}.{field}", getattr(structure, field).offset
    for number in (*KernelKind, *BFloat16KernelKind, *Int8KernelKind, *StepKind, *ChangeKind, *Border, *Status):
        yield f"CI_{number.name}", number.value
    yield "CI_KERNELS", len(KernelKind) + len(BFloat16KernelKind) + len(Int8KernelKind)
    yield "CI_FIRST", combine_number(None)
    for combine in Combine:
        yield f"CI_{combine.name}", combine_number(combine)
    for kind in ActivationKind:
        yield f"CI_{kind.name}", activation_number(kind)
    yield "kPoolRadius", len(POOLING) // 2
