# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Decides, by the state of a model's sessions, whether the server can be reached."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Contact:
    """Follows the sessions of one model; times are seconds of any monotonic clock.

    A session that ends restarts within moments if the server still runs: frames are computed on the robot meanwhile,
    and the server counts as lost only when no session has come back for a while. When the variant is then dropped,
    nobody listens to the server any more: it counts as lost for some time longer, or a server that answers requests but
    starts no sessions would have the model loaded over and over again.

    Attributes:
        patience_s: time allowed for the first session, as the server has to load the model.
        grace_s: time allowed for a session that follows another.
        pause_s: time for which the server stays lost when nobody listens any more.
    """

    patience_s: float
    grace_s: float
    pause_s: float
    _was_up: bool = False
    _down_s: float | None = None
    _lost_until_s: float | None = None

    def begin(self) -> None:
        """Expect sessions again, of which none has started yet."""
        self._was_up, self._down_s = False, None

    def is_lost(self, complaint: str | None, now_s: float) -> bool:
        """Tell whether the server is lost.

        Args:
            complaint: why there is no session; empty: there is one; None: no session is wanted.
            now_s: the present time.
        """
        if complaint == "":
            self._was_up, self._down_s, self._lost_until_s = True, None, None
            return False
        if complaint is None:
            return self._lost_until_s is not None and now_s < self._lost_until_s
        if self._down_s is None:
            self._down_s = now_s
        is_lost = now_s - self._down_s >= (self.grace_s if self._was_up else self.patience_s)
        if is_lost:
            self._lost_until_s = now_s + self.pause_s
        return is_lost
