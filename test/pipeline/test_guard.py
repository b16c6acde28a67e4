# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A failure becomes a reason, is logged once, and does not end anything."""

from __future__ import annotations

import pytest

from cacheinf_ros.errors import MOST_CHARACTERS, CacheinfError, MessageError
from cacheinf_ros.pipeline.guard import Told, guarded


def test_what_goes_well_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    with guarded("frame 1") as failure:
        done = True
    assert done
    assert not failure
    assert not caplog.records


def test_what_the_user_can_change_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with guarded("frame 1") as failure:
        raise MessageError("no such encoding")
    assert failure.reason == "no such encoding"
    (record,) = caplog.records
    assert (record.getMessage(), record.exc_info) == ("frame 1: no such encoding", None)


@pytest.mark.parametrize("error", [ValueError("a bug"), MemoryError()])
def test_a_bug_keeps_its_traceback(caplog: pytest.LogCaptureFixture, error: Exception) -> None:
    with guarded("frame 1") as failure:
        raise error
    assert failure
    assert type(error).__name__ in failure.reason
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is error


@pytest.mark.parametrize("kind", [MessageError, ValueError, Told])
def test_a_reason_is_bounded(kind: type[Exception]) -> None:
    with guarded("frame 1") as failure:
        raise kind("x" * 5_000_000)
    assert len(failure.reason) == MOST_CHARACTERS


@pytest.mark.parametrize("error", [CacheinfError(), Told()])
def test_an_error_without_a_text_fails_all_the_same(error: CacheinfError) -> None:
    with guarded("frame 1") as failure:
        raise error
    assert failure


def test_what_was_told_is_not_told_again(caplog: pytest.LogCaptureFixture) -> None:
    with guarded("frame 1") as failure:
        raise Told("no such encoding")
    assert failure.reason == "no such encoding"
    assert not caplog.records


def test_an_interrupt_is_not_held_back() -> None:
    with pytest.raises(KeyboardInterrupt), guarded("frame 1"):
        raise KeyboardInterrupt
