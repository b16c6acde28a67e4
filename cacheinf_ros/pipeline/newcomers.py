# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Sees what comes into a picture that is otherwise at rest, though it changes the picture no more than other things do.

Limits on change hold for the whole picture: where cars pass below, they are wide, and somebody who comes in at the edge
stays within them. So a place is also compared with what happened around it lately.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.pipeline.picture_kernels import see

_NOTICED = 16  # grey levels: noise and slow changes of light stay below
_MOVING = 0.1  # share of the picture: where more of it changes, the camera moves, and every place does
_DECAY = 0.98  # per frame, of what is remembered: half of it after 34 frames


def moves(difference: NDArray[np.uint8]) -> bool:
    """Whether a picture changes as a whole, as where the camera moves; ``difference``: see :meth:`Newcomers.see`."""
    return int(np.count_nonzero(difference > _NOTICED)) > _MOVING * difference.size


class Newcomers:
    """Remembers how much each place changed. One frame after the other."""

    def __init__(self) -> None:
        self._lately: NDArray[np.float32] | None = None

    def see(self, difference: NDArray[np.uint8]) -> bool:
        """Whether a place changes by more than noise and than its surroundings did lately.

        Args:
            difference: uint8 [h, w], C-contiguous, by how much each place differs from the last answer's frame, in
                grey levels.
        """
        if self._lately is None:
            self._lately = difference.astype(np.float32)
            return False
        most = int(_MOVING * difference.size)
        return bool(see(difference, self._lately, _NOTICED, most, _DECAY))

    def forget(self) -> None:
        """The stream began anew."""
        self._lately = None
