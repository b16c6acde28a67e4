# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A server's load is read as it was written, and nothing else is read as one."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.offload.protocol.load_content import load_content, load_from


@given(busy=st.floats(0, 1, width=32))
def test_what_is_written_is_read(busy: float) -> None:
    assert load_from(load_content(busy)) == busy


@pytest.mark.parametrize("content", [b"", bytes(5), *(struct.pack("<f", each) for each in (-0.1, 1.1, float("nan")))])
def test_what_makes_no_sense_is_no_load(content: bytes) -> None:
    assert load_from(content) is None
