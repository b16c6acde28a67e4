# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tells a stream that begins anew, as where a bag loops or a clock is set back, from late or doubled frames."""

from __future__ import annotations

_LATE_NS = 10**9  # frames overtake each other by less; a clock at a lower rate than the camera repeats stamps


def begins_anew(before_ns: int, stamp_ns: int) -> bool:
    """Tell whether no earlier frame says anything about one with this stamp; ``before_ns``: the stamp before it."""
    return stamp_ns < before_ns - _LATE_NS
