# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of sizes as users write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from strategies import image_sizes

from cacheinf_ros.config import parse_size
from cacheinf_ros.errors import ConfigError


@given(size=image_sizes())
def test_a_size_is_read_as_it_was_written(size: tuple[int, int]) -> None:
    assert parse_size("{}x{}".format(*size)) == parse_size("{}X{}".format(*size)) == size


@pytest.mark.parametrize("text", ["", None])
def test_nothing_is_no_size(text: str | None) -> None:
    assert parse_size(text) is None


@pytest.mark.parametrize("text", ["480", "480x", "0x4", "-1x4", "4x5x6", "axb", "²x3"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected HEIGHTxWIDTH"):
        parse_size(text)
