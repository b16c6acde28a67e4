# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""An error's text quotes what others sent, but not all of it."""

from __future__ import annotations

import pytest

from cacheinf_ros.errors import MOST_CHARACTERS, quoted, shortened

HUGE = "x" * 5_000_000


@pytest.mark.parametrize("value", [HUGE, "\0" * 5_000_000, [HUGE] * 3, HUGE.encode(), 10**4000], ids=type)
def test_what_is_quoted_is_bounded(value: object) -> None:
    assert len(quoted(value)) < MOST_CHARACTERS
    assert len(quoted(HUGE, 200)) == 200


def test_what_is_short_is_quoted_whole() -> None:
    assert quoted("yuv422_yuy2; jpeg compressed bgr8") == "'yuv422_yuy2; jpeg compressed bgr8'"
    assert quoted(12.5) == "12.5"


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    found = shortened(f"model 'a' {HUGE}; install the same version")
    assert len(found) == MOST_CHARACTERS
    assert found.startswith("model 'a' x") and "x; install the same version" in found and "5000036 characters" in found
    assert shortened("x" * MOST_CHARACTERS) == "x" * MOST_CHARACTERS
