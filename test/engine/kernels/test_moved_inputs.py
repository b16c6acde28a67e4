# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""When inputs move to other memory, all pointers to maps in the parameters move, and nothing else changes."""

from __future__ import annotations

from cacheinf_ros.engine.kernels import abi
from cacheinf_ros.engine.kernels.moved_inputs import with_moved_inputs

_KERNELS = (
    abi.CConv, abi.CPool, abi.CElementwise, abi.CChannelNorm, abi.CChannelSoftmax, abi.CResample, abi.CPixelShuffle,
    abi.CSelect, abi.CGlobalMean, abi.CConvInt8, abi.CPoolInt8, abi.CElementwiseInt8, abi.CResampleInt8,
    abi.CGlobalMeanInt8, abi.CConvert,
)  # fmt: skip


def test_every_kernel_has_an_input_that_moves() -> None:
    for kind in _KERNELS:
        filled = bytearray(b"\x11" * abi.ctypes.sizeof(kind))
        params = kind.from_buffer(filled)
        moved = bytes(with_moved_inputs(params, [64]))
        assert sum(a != b for a, b in zip(filled, moved, strict=True)) in (1, 2), kind.__name__
        assert bytes(params) == bytes(filled), "the original stays as it was"


def test_inputs_move_each_by_its_own_distance() -> None:
    params = abi.CConv(residual=5000, weight=3000, bias=4000, **{"in": 2000})
    moved = with_moved_inputs(params, [-1000, 24])
    assert (getattr(moved, "in"), moved.residual, moved.weight, moved.bias) == (1000, 5024, 3000, 4000)


def test_an_input_that_is_missing_stays_so() -> None:
    moved = with_moved_inputs(abi.CElementwise(a=2000), [-1000])
    assert (moved.a, moved.b) == (1000, None)


def test_one_source_may_be_read_twice() -> None:
    moved = with_moved_inputs(abi.CElementwise(a=2000, b=2000), [8])
    assert (moved.a, moved.b) == (2008, 2008)
