# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How many of the images that were published a node has still before it, as far as its diagnostics tell."""

from __future__ import annotations

import threading
from collections.abc import Mapping

_DONE = ("results", "dropped", "lost", "unreadable")  # what may become of an image, in an inference node's diagnostics
_IDLE_S = 30.0  # a node that answers nothing for so long, and says so, has nothing before it


class Backlog:
    """Counts images that a node has not answered yet. Thread-safe.

    Attributes:
        heard_s: when something was last heard of the node, by the clock that is given; None: nothing has been.
    """

    def __init__(self) -> None:
        """Count only what is published from now on."""
        self.heard_s: float | None = None
        self._images = 0
        self._done = 0
        self._changed_s = 0.0
        self._lock = threading.Lock()

    @property
    def images(self) -> int:
        """The number of images that are not answered."""
        return self._images

    def published(self) -> None:
        """Take note that an image was published."""
        with self._lock:
            self._images += 1

    def heard(self, values: Mapping[str, str], now_s: float) -> None:
        """Take note of the values in the node's diagnostics, which come once a second, whatever it does."""
        done = sum(int(values.get(name, "0")) for name in _DONE)
        with self._lock:
            if self.heard_s is None or done != self._done:
                # before it was heard first nothing was published; a node that was started again counts from 0
                new = done - self._done if self.heard_s is not None else 0
                self._images -= min(self._images, max(0, new))
                self._done, self._changed_s = done, now_s
            elif now_s - self._changed_s > _IDLE_S:
                self._images = 0  # those that were left never reached it
            self.heard_s = now_s
