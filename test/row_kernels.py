# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Every kernel on random rows, against plain torch on the whole map."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from emulation.emulated_library import EmulatedLibrary
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch.nn import functional
from triton_devices import DEVICE, KERNELS, on_test_device

from cacheinf_ros.engine.backends import NativeBackend
from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.kernels import NativeCall, ReferenceKernels
from cacheinf_ros.engine.kernels.abi import Status
from cacheinf_ros.engine.kernels.kernel_library import kernel_library
from cacheinf_ros.graph.ir import Operator
from cacheinf_ros.graph.window import Pair, Window

CPU = torch.device("cpu")
REFERENCE = ReferenceKernels(CPU)
_LIBRARY = kernel_library()
IS_EMULATED = isinstance(_LIBRARY, EmulatedLibrary)
HAS_BFLOAT16 = _LIBRARY is not None and bool(_LIBRARY.ci_has_bfloat16())
NATIVE = [] if _LIBRARY is None else [NativeBackend(_LIBRARY, threads) for threads in (1, 3)]

CHANNELS = st.integers(1, 70)
SIZES = st.tuples(st.integers(1, 20), st.integers(1, 20))
_UNTOUCHED = 12345.0


def filled(size: Pair, channels: int, seed: int) -> MapBuffer:
    """Random channels inside a wider map; what lies beside them is not a number."""
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
    """All kernels give the expected rows, wherever they are written, and write nothing else.

    Args:
        expected: float32 [1, channels, height, width].
        error: largest that is allowed, absolute and relative.
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
    if IS_EMULATED:  # nothing of Triton's is, and its interpreter takes most of the time
        return
    in_place, compact = run_triton(op, sources, rows, *values.shape)
    torch.testing.assert_close(in_place[torch.from_numpy(rows).long()], wanted, atol=error, rtol=error)
    assert torch.equal(in_place[torch.from_numpy(rows).long()], compact)


def run_triton(
    op: Operator, sources: Sequence[MapBuffer], rows: NDArray[np.int32], pixels: int, channels: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the Triton kernel writes into some channels of a wider map, and in the order of the list; nothing else may
    have been touched.
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
    """All compiled kernels that compute an operator, with one thread and with several."""
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
) -> torch.Tensor:
    """What a compiled kernel writes into some channels of a wider map; nothing else may have been touched."""
    whole = MapBuffer.allocate((1, pixels), channels + 5, CPU)
    whole.pixels.fill_(_UNTOUCHED)
    out = whole.pixels[:, 3 : 3 + channels]
    status = kernels.library.ci_run_kernel(
        kernels.threads, None, call.kind, ctypes.byref(call.params), rows.ctypes.data, to.ctypes.data, len(rows),
        out.data_ptr(), out.stride(0),
    )  # fmt: skip
    assert status == Status.DONE
    result = out.clone()
    out[torch.from_numpy(to).long()] = _UNTOUCHED
    assert bool((whole.pixels == _UNTOUCHED).all()), "written beside the listed rows"
    return result


def _some_rows(pixels: int, seed: int) -> NDArray[np.int32]:
    """int32: from one to all, in order."""
    generator = np.random.default_rng(seed)
    share = generator.choice([0.02, 0.3, 0.7, 1.0])
    rows = np.flatnonzero(generator.random(pixels) < share)
    return (rows if len(rows) else generator.integers(0, pixels, 1)).astype(np.int32)


@st.composite
def windows(draw: st.DrawFn, *, largest: int = 5) -> Window:
    """Any window over a small image, with any padding, and dilated."""
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
    """The image with the padding of the window before it, and more than enough behind it."""
    (top, left), spare = window.padding, 2 * max(window.kernel) + max(window.stride)
    return functional.pad(image, (left, spare, top, spare), value=value)
