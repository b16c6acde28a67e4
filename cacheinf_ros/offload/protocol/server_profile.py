# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Checks of the times that a server states for its operators, before frames are planned with them."""

from __future__ import annotations

from collections.abc import Sequence

from cacheinf_ros.engine import PartitionSpace
from cacheinf_ros.engine.cost import POINTS

_LONGEST_MS = 1e9
_REMEDY = "it is not planned with; its log says why it measured none"


def states_times(space: PartitionSpace, profile: Sequence[Sequence[float]]) -> bool:
    """Tell whether a profile has the time of any costly operator; for ``profile`` see :class:`.greeting.Welcome`."""
    return any(took_ms[-1] > 0 for name, took_ms in zip(space.heights, profile, strict=True) if name in space.costly)


def profile_objection(space: PartitionSpace, profile: Sequence[Sequence[float]]) -> str:
    """Return why frames cannot be planned with a profile; empty where they can.

    A server that states that its operators take no time would be given all of the work, however slow it is.
    """
    if not profile:
        return f"the server states no times for its operators: {_REMEDY}"
    if len(profile) != len(space.heights) or not all(map(_is_curve, profile)):
        return "the server's profile is not one of this network"
    if not states_times(space, profile):
        return f"the server states no times for its operators (0 ms for each of {len(space.costly)}): {_REMEDY}"
    return ""


def _is_curve(took_ms: Sequence[float]) -> bool:
    return len(took_ms) == len(POINTS) and all(0 <= value < _LONGEST_MS for value in took_ms)
