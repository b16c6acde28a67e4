# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Encoded patches are decoded again, and broken ones are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.engine.partition.exchange import Patch
from cacheinf_ros.errors import MessageError
from cacheinf_ros.offload.protocol.patches import WireType, decode_patch, encode_patch

WIDTH, CHANNELS = 13, 5


def patch(seed: int, share: float, rows: tuple[int, int] = (3, 10)) -> Patch:
    rng = np.random.default_rng(seed)
    mask = (rng.random((rows[1] - rows[0], WIDTH)) < share).astype(np.uint8)
    values = rng.normal(0, 3, (int(mask.sum()), CHANNELS)).astype(np.float32)
    return Patch(rows=rows, mask=mask, values=values)


@given(
    seed=st.integers(0, 10**6),
    share=st.sampled_from([0.0, 0.1, 1.0]),
    wire=st.sampled_from(WireType),
    compress=st.booleans(),
)
def test_comes_back(seed: int, share: float, wire: WireType, compress: bool) -> None:
    sent = patch(seed, share)
    back = decode_patch(encode_patch(sent, wire, compress=compress), sent.rows, WIDTH, CHANNELS)
    assert back.rows == sent.rows
    assert (back.mask == sent.mask).all()
    assert back.values.dtype == np.float32
    largest = np.abs(sent.values).max(axis=0, initial=0.0)
    allowed = {WireType.FLOAT32: 0.0, WireType.FLOAT16: largest / 2**11, WireType.INT8: largest / 127 / 2}[wire]
    assert (np.abs(back.values - sent.values) <= np.asarray(allowed) * 1.001).all()


def test_classes_are_sent_as_they_are() -> None:
    values = np.arange(6, dtype=np.int64)[None]
    sent = Patch(rows=(0, 1), mask=np.ones((1, 1), np.uint8), values=values, is_map=False)
    back = decode_patch(encode_patch(sent, WireType.INT8), (0, 1), 1, 6)
    assert back.values.dtype == np.int64
    assert (back.values == values).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8, np.bool_])
@pytest.mark.parametrize("lacks", [0, 1])
def test_what_is_no_feature_map_is_sent_whole_or_not_at_all(dtype: type, lacks: int) -> None:
    values = np.arange(6).reshape(3, 2).astype(dtype) if lacks else np.zeros(0, dtype)
    sent = Patch(rows=(0, 1), mask=np.full((1, 1), lacks, np.uint8), values=values, is_map=False)
    back = decode_patch(encode_patch(sent, WireType.INT8), (0, 1), 1, 6)
    assert back.values.dtype == dtype
    assert (back.values.ravel() == values.ravel()).all()


@given(seed=st.integers(0, 10**6), data=st.data(), compress=st.booleans())
def test_broken_ones_are_refused_or_harmless(seed: int, data: st.DataObject, compress: bool) -> None:
    """A patch cut off, longer, or with a byte changed gives a clear error, or a patch of the right shape."""
    sent = patch(seed, 0.3)
    whole = bytearray(encode_patch(sent, WireType.FLOAT32, compress=compress))
    kind = data.draw(st.sampled_from(["cut", "longer", "changed"]))
    place = data.draw(st.integers(0, len(whole) - 1))
    if kind == "cut":
        whole = whole[:place]
    elif kind == "longer":
        whole += bytes(place + 1)
    else:
        whole[place] ^= data.draw(st.integers(1, 255))
    try:
        back = decode_patch(bytes(whole), sent.rows, WIDTH, CHANNELS)
    except MessageError:
        return
    assert kind == "changed" or compress
    assert back.mask.shape == sent.mask.shape
    assert back.values.shape == (int(back.mask.sum()), CHANNELS)


def test_what_is_unexpected_is_named() -> None:
    sent = encode_patch(patch(0, 0.5), WireType.FLOAT32)
    with pytest.raises(MessageError, match="rows 3 to 10"):
        decode_patch(sent, (3, 11), WIDTH, CHANNELS)
    with pytest.raises(MessageError, match="cannot be"):
        decode_patch(sent, (3, 10), WIDTH, 1)
    with pytest.raises(MessageError, match="cut off"):
        decode_patch(b"", (3, 10), WIDTH, CHANNELS)
    strange = Patch(rows=(0, 1), mask=np.ones((1, 1), np.uint8), values=np.zeros((1, 1), np.complex64))
    with pytest.raises(MessageError, match="complex64"):
        encode_patch(strange, WireType.FLOAT32)
