# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The reason why no image comes, which is not stated too early."""

from __future__ import annotations

from cacheinf_ros.pipeline import Silence

NOBODY = "nobody publishes on /image"
NO_MORE = "nobody publishes on /image any more"
LOST = "nothing arrives on /image, although somebody publishes there"


def told(
    looks: range, *, arrived_s: float | None = None, appears_s: float = 0.0, goes_s: float = 1e9
) -> dict[float, str]:
    """Return the reason that is stated first and at each change, by time (s).

    Somebody publishes from ``appears_s`` until ``goes_s``.
    """
    silence, changes, last = Silence("/image"), {}, None
    for now_s in looks:
        known = arrived_s if arrived_s is not None and arrived_s <= now_s else None
        reason = silence.reason(now_s, known, is_published=appears_s <= now_s < goes_s)
        if reason != last:
            changes[float(now_s)] = last = reason
    return changes


def test_a_camera_that_never_comes_is_missed() -> None:
    assert told(range(100, 200), appears_s=1e9) == {100: "", 106: NOBODY}


def test_a_camera_that_comes_late_has_time_for_its_first_image() -> None:
    assert told(range(100), appears_s=50) == {0: "", 6: NOBODY, 50: "", 56: LOST}
    assert told(range(57), appears_s=50, arrived_s=51) == {0: "", 6: NOBODY, 50: ""}


def test_a_camera_that_goes_is_missed_some_seconds_after_its_last_image() -> None:
    assert told(range(100), arrived_s=40, goes_s=41) == {0: "", 6: LOST, 40: "", 46: NO_MORE}


def test_a_camera_that_was_killed_is_known_to_have_gone_only_later() -> None:
    assert told(range(100), arrived_s=4, goes_s=24) == {0: "", 10: LOST, 24: NO_MORE}


def test_a_camera_that_is_started_anew_is_not_missed_any_more() -> None:
    silence = Silence("/image")
    assert silence.reason(0.0, 0.0, is_published=True) == ""
    assert silence.reason(10.0, 0.0, is_published=False) == NO_MORE
    assert silence.reason(11.0, 0.0, is_published=True) == ""
    assert silence.reason(15.0, 14.9, is_published=True) == ""
    assert silence.reason(16.0, 15.9, is_published=False) == ""
