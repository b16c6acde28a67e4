# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of when the server counts as lost for a model."""

from __future__ import annotations

from cacheinf_ros.catalog.serving.contact import Contact

DOWN, UP, NOBODY = "no server has answered yet", "", None


def contact() -> Contact:
    return Contact(patience_s=5.0, grace_s=1.0, pause_s=30.0)


def test_a_server_has_time_to_load() -> None:
    ours = contact()
    assert [ours.is_lost(DOWN, now) for now in (10.0, 14.9, 15.0, 20.0)] == [False, False, True, True]
    assert not ours.is_lost(UP, 21.0)


def test_a_session_that_starts_anew_within_moments_is_no_loss() -> None:
    ours = contact()
    heard = [(UP, 0.0), (DOWN, 1.0), (DOWN, 1.9), (UP, 2.0), (DOWN, 3.0), (DOWN, 3.9), (DOWN, 4.0), (UP, 5.0)]
    assert [ours.is_lost(*what) for what in heard] == [False] * 6 + [True, False]


def test_with_nobody_to_hear_it_a_lost_server_is_left_alone_for_a_while() -> None:
    ours = contact()
    assert not ours.is_lost(NOBODY, 0.0)
    ours.is_lost(UP, 1.0)
    ours.is_lost(DOWN, 2.0)
    assert ours.is_lost(DOWN, 3.0)
    assert ours.is_lost(NOBODY, 32.9)
    assert not ours.is_lost(NOBODY, 33.0)
    ours.begin()
    assert not ours.is_lost(DOWN, 33.0)
    assert ours.is_lost(DOWN, 38.0)
