# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Whether the server can be reached for the frames of a model, by what its sessions say."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Contact:
    """Follows the sessions of one model. Times are seconds of any clock that does not go back.

    A session that ends starts anew within moments where the server still runs: frames are computed here meanwhile,
    and only when it has not come back for a while is the server taken to be lost. A variant that is then dropped
    leaves nobody who would hear the server: it counts as lost for some time more, or a server that answers requests
    but starts no sessions would have the model loaded over and over again.

    Attributes:
        patience_s: for the first session: the server has to load the model.
        grace_s: for one that comes after another.
        pause_s: for which the server stays lost when nobody listens any more.
    """

    patience_s: float
    grace_s: float
    pause_s: float
    _was_up: bool = False
    _down_s: float | None = None
    _lost_until_s: float | None = None

    def begin(self) -> None:
        """There will be sessions again; none has started yet."""
        self._was_up, self._down_s = False, None

    def is_lost(self, complaint: str | None, now_s: float) -> bool:
        """Whether the server is lost.

        Args:
            complaint: why there is no session; empty: there is one; None: none is wanted.
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
