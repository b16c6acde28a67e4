# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The sides of an image beside which padding may count as changed."""

from __future__ import annotations

from enum import IntFlag


class Border(IntFlag):
    """The sides of an image beside which its padding counts as changed; ``ci_border`` in compiled code."""

    NONE = 0
    LEFT = 1
    RIGHT = 2
    TOP = 4
    BOTTOM = 8
    ALL = 15

    @classmethod
    def left_behind(cls, dx: int, dy: int) -> Border:
        """Return the sides where padding takes the place of pixels when an image moves right by dx and down by dy.

        Those are the opposite of the sides at which new pixels enter.
        """
        across = cls.RIGHT if dx > 0 else cls.LEFT if dx < 0 else cls.NONE
        along = cls.BOTTOM if dy > 0 else cls.TOP if dy < 0 else cls.NONE
        return across | along
