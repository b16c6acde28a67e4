# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Checks of every kernel on random rows against plain torch on the whole map."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import TypeGuard

import numpy as np
import torch
from emulation.emulated_library import EmulatedLibrary
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch.nn import functional
from triton_devices import DEVICE, KERNELS, on_test_device

from cacheinf_ros.engine.backends import NativeBackend
from cacheinf_ros.engine.buffers import MapBuffer, MapShape, allocate_maps
from cacheinf_ros.engine.kernels import NativeCall, ReferenceKernels
from cacheinf_ros.engine.kernels.abi import BFloat16KernelKind, CSelect, KernelKind, Status
from cacheinf_ros.engine.kernels.kernel_library import kernel_library
from cacheinf_ros.graph.ir import ChannelNorm, ChannelSoftmax, Conv, Operator
from cacheinf_ros.graph.window import Pair, Window

CPU = torch.device("cpu")
REFERENCE = ReferenceKernels(CPU)
_LIBRARY = kernel_library()
IS_EMULATED = isinstance(_LIBRARY, EmulatedLibrary)
HAS_BFLOAT16 = _LIBRARY is not None and bool(_LIBRARY.ci_has_bfloat16())
NATIVE = [] if _LIBRARY is None else [NativeBackend(_LIBRARY, threads) for threads in (1, 3)]
WITHOUT_TILES = [] if _LIBRARY is None else [NativeBackend(_LIBRARY, 3, tiles=False)]

CHANNELS = st.integers(1, 70)
SIZES = st.tuples(st.integers(1, 20), st.integers(1, 20))
_UNTOUCHED = 12288.0  # exactly representable in every float dtype
_STEP = {torch.bfloat16: 2**-7, torch.float32: 1e-4}  # the relative rounding error of a dtype


def filled(size: Pair, channels: int, seed: int) -> MapBuffer:
    """Return a map of random values that lies inside of a wider map, whose other channels are NaN."""
    generator = torch.Generator().manual_seed(seed)
    before, after = (int(n) for n in torch.randint(0, 4, (2,), generator=generator))
    whole = MapBuffer.allocate(size, before + channels + after, CPU)
    whole.pixels.fill_(float("nan"))
    part = whole.channels(before, channels)
    part.pixels.normal_(generator=generator)
    return part


def check(
    op: Operator, sources: Sequence[MapBuffer], expected: torch.Tensor, *, seed: int, error: float = 1e-5
) -> None:
    """Check that all kernels compute the expected rows, wherever they write them, and write nothing else.

    Args:
        expected: float32 [1, channels, height, width].
        error: the largest error that is allowed, absolute and relative.
    """
    values = expected[0].flatten(1).t()
    rows = _some_rows(len(values), seed)
    wanted = values[torch.from_numpy(rows).long()]
    function = REFERENCE.prepare(op, sources, values.shape[1])
    torch.testing.assert_close(function(torch.from_numpy(rows).long()), wanted, atol=error, rtol=error)
    behind = np.arange(len(rows), dtype=np.int32)
    for kernels, call in native_calls(op, sources, values.shape[1]):
        in_place = run_native(kernels, call, rows, rows, *values.shape)
        compact = run_native(kernels, call, rows, behind, *values.shape)
        torch.testing.assert_close(compact[: len(rows)], wanted, atol=error, rtol=error)
        assert torch.equal(in_place[torch.from_numpy(rows).long()], compact[: len(rows)])
    if NATIVE and not isinstance(op, ChannelSoftmax):
        check_bfloat16(op, [in_bfloat16(source, seed) for source in sources], rows, values.shape, torch.bfloat16)
    if IS_EMULATED:  # Triton's kernels are not, and interpreting them takes most of the time
        return
    in_place, compact = run_triton(op, sources, rows, *values.shape)
    torch.testing.assert_close(in_place[torch.from_numpy(rows).long()], wanted, atol=error, rtol=error)
    if DEVICE.type == "cpu" or not isinstance(op, ChannelNorm):
        assert torch.equal(in_place[torch.from_numpy(rows).long()], compact)
    else:  # code for another pitch may sum over channels in another order
        torch.testing.assert_close(compact, wanted, atol=error, rtol=error)


def in_bfloat16(source: MapBuffer, seed: int) -> MapBuffer:
    """Copy a map into one of its own or into a wider one in bfloat16; all memory beside and behind it is NaN."""
    channels = source.pixels.shape[1]
    shape = MapShape(size=source.size, channels=channels + 3 * (seed % 2), floats=torch.bfloat16)
    whole = MapBuffer.at(torch.full((shape.bytes + 128,), 0xFF, dtype=torch.uint8), 0, shape)
    part = whole.channels(seed % 2, channels)
    part.pixels.copy_(source.pixels)
    return part


def check_bfloat16(
    op: Operator, halves: Sequence[MapBuffer], rows: NDArray[np.int32], shape: Sequence[int], floats: torch.dtype
) -> None:
    """Check all instruction sets' bfloat16 kernels against the float32 kernels on the same values, rounded.

    Args:
        halves: the maps of the operator's inputs, bfloat16.
        shape: (pixels, channels) of the output.
        floats: the dtype of the output.
    """
    wide = [MapBuffer(pixels=source.pixels.float(), size=source.size) for source in halves]
    plain = replace(op, weight=op.weight.bfloat16().float()) if _rounds_weights(op) else op
    listed = torch.from_numpy(rows).long()
    kernels = NATIVE[-1]
    best, call = (each.prepare(op, halves, shape[1], floats).call for each in (kernels, *WITHOUT_TILES))
    exact = kernels.prepare(plain, wide, shape[1]).call
    assert best is not None and call is not None and exact is not None
    expected = run_native(kernels, exact, rows, rows, *shape)[listed]
    runs: list[tuple[NativeCall, bytes | None]] = [(best, None), (call, None)]
    if call.kind is BFloat16KernelKind.CONV_BFLOAT16:  # needs an instruction that the other sets lack
        call = replace(call, kind=BFloat16KernelKind.CONV_BFLOAT16_WIDENED)
    runs += [(call, name) for name in _instruction_sets()]
    for each, name in runs:
        ours = run_native(kernels, each, rows, rows, *shape, floats=floats, instruction_set=name)
        torch.testing.assert_close(ours[listed].float(), expected, atol=1e-4, rtol=_STEP[floats])
        few = np.ascontiguousarray(rows[::2])
        fewer = run_native(kernels, each, few, few, *shape, floats=floats, instruction_set=name)
        assert torch.equal(fewer[listed[::2]], ours[listed[::2]]), "pixels depend on what is computed beside them"


@cache
def _instruction_sets() -> list[bytes]:
    """Return the instruction sets that this machine can run."""
    (kernels, *_), params = NATIVE, CSelect(channels=1)

    def run(name: bytes) -> int:
        return int(
            kernels.library.ci_run_kernel(
                kernels.threads, name, KernelKind.SELECT, ctypes.byref(params), None, None, 0, None, 1
            )
        )

    return [name for name in (b"avx512", b"avx2", b"i8mm", b"dotprod", b"base") if run(name) == Status.DONE]


def _rounds_weights(op: Operator) -> TypeGuard[Conv]:
    return isinstance(op, Conv) and not op.is_depthwise


def run_triton(
    op: Operator, sources: Sequence[MapBuffer], rows: NDArray[np.int32], pixels: int, channels: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run the Triton kernel, and check that it writes nothing but the listed rows.

    Returns:
        What it writes into some channels of a wider map, and what it writes in the order of the list.
    """
    launch = KERNELS.prepare(op, [on_test_device(source) for source in sources], channels)
    assert launch is not None
    whole = torch.full((pixels, channels + 5), _UNTOUCHED, device=DEVICE)
    listed = torch.zeros(pixels, dtype=torch.int32, device=DEVICE)
    listed[: len(rows)] = torch.from_numpy(rows).to(DEVICE)
    count = torch.tensor([len(rows)], dtype=torch.int32, device=DEVICE)
    out = whole[:, 3 : 3 + channels]
    launch(listed, count, out, most=pixels)
    compact = launch.function()(torch.from_numpy(rows).long().to(DEVICE))
    result = out.clone()
    out[torch.from_numpy(rows).long()] = _UNTOUCHED
    assert bool((whole == _UNTOUCHED).all()), "written beside the listed rows"
    return result.cpu(), compact.cpu()


def native_calls(
    op: Operator, sources: Sequence[MapBuffer], channels: int
) -> Iterator[tuple[NativeBackend, NativeCall]]:
    """Yield all compiled kernels that compute an operator, with one thread and with several."""
    for kernels in NATIVE:
        prepared = kernels.prepare(op, sources, channels)
        assert prepared.call is not None
        yield kernels, prepared.call
        if prepared.alternative is not None:
            yield kernels, prepared.alternative


def run_native(
    kernels: NativeBackend,
    call: NativeCall,
    rows: NDArray[np.int32],
    to: NDArray[np.int32],
    pixels: int,
    channels: int,
    *,
    floats: torch.dtype = torch.float32,
    instruction_set: bytes | None = None,
) -> torch.Tensor:
    """Run a compiled kernel on some channels of a wider map, check that it writes nothing else, and return these."""
    (whole,) = allocate_maps([MapShape(size=(1, pixels), channels=channels + 5, floats=floats)], CPU)
    whole.pixels.fill_(_UNTOUCHED)
    out = whole.pixels[:, 3 : 3 + channels]
    status = kernels.library.ci_run_kernel(
        kernels.threads, instruction_set, call.kind, ctypes.byref(call.params), rows.ctypes.data, to.ctypes.data,
        len(rows), out.data_ptr(), out.stride(0),
    )  # fmt: skip
    assert status == Status.DONE
    result = out.clone()
    out[torch.from_numpy(to).long()] = _UNTOUCHED
    assert bool((whole.pixels == _UNTOUCHED).all()), "written beside the listed rows"
    return result


def _some_rows(pixels: int, seed: int) -> NDArray[np.int32]:
    """Draw between one and all rows, int32, in ascending order."""
    generator = np.random.default_rng(seed)
    share = generator.choice([0.02, 0.3, 0.7, 1.0])
    rows = np.flatnonzero(generator.random(pixels) < share)
    return (rows if len(rows) else generator.integers(0, pixels, 1)).astype(np.int32)


@st.composite
def windows(draw: st.DrawFn, *, largest: int = 5) -> Window:
    """Draw a window over a small image, with any padding and dilation."""
    axes = [_axis(draw, largest) for _ in range(2)]
    in_size, out_size, kernel, stride, dilation, padding = zip(*axes, strict=True)
    return Window(
        in_size=in_size, out_size=out_size, kernel=kernel, stride=stride, dilation=dilation, padding=padding
    )  # fmt: skip


def _axis(draw: st.DrawFn, largest: int) -> tuple[int, ...]:
    kernel, stride, dilation = draw(st.integers(1, largest)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    padding, after = draw(st.integers(0, kernel - 1)), draw(st.integers(0, kernel - 1))
    reach = dilation * (kernel - 1) + 1
    size = draw(st.integers(max(1, reach - padding - after), 20))
    return size, (size + padding + after - reach) // stride + 1, kernel, stride, dilation, padding


def with_border(image: torch.Tensor, window: Window, value: float) -> torch.Tensor:
    """Pad the image: by the window's padding before it, and by more than enough behind it."""
    (top, left), spare = window.padding, 2 * max(window.kernel) + max(window.stride)
    return functional.pad(image, (left, spare, top, spare), value=value)
