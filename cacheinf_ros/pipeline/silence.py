# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Finds out why no image comes: nobody publishes any, or they do not arrive."""

from __future__ import annotations

_PATIENCE_S = 5.0


class Silence:
    """Gives the reason once no image has come for some seconds; the caller reads the clock and the ROS graph.

    A camera that has just appeared is given that time anew. For one that disappears, the time counts from its last
    image.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._since_s: float | None = None
        self._is_published = False
        self._was_published = False

    def reason(self, now_s: float, arrived_s: float | None, *, is_published: bool) -> str:
        """Tell why no image comes; to be called about once a second.

        Args:
            now_s: the time by any one clock.
            arrived_s: when the last image came, by the same clock; None: none has come.
            is_published: whether somebody publishes on the topic, as far as is known.

        Returns:
            the reason; empty: an image has come lately, or it is too early to tell.
        """
        if self._since_s is None or (is_published and not self._is_published):
            self._since_s = now_s
        self._is_published = is_published
        self._was_published |= is_published
        last_s = self._since_s if arrived_s is None else max(self._since_s, arrived_s)
        if now_s - last_s <= _PATIENCE_S:
            return ""
        if is_published:
            return f"nothing arrives on {self._topic}, although somebody publishes there"
        return f"nobody publishes on {self._topic}" + (" any more" if self._was_published else "")
