# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Notices what comes into a picture otherwise at rest, though it changes the picture no more than other things do.

Limits on change hold for the whole picture: where cars pass below, the limits are wide, and a person who comes in at
the edge stays within them. So each place is also compared with what happened around it lately.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.pipeline.picture_kernels import see

NOTICED = 16
"""The change of a place that is seen, in grey levels: noise and slow changes of light stay below this."""
_MOVING = 0.1  # share of the picture: where more of it changes, the camera moves, and every place does
_DECAY = 0.98  # factor per frame for the remembered changes: half is left after 34 frames


def moves(difference: NDArray[np.uint8]) -> bool:
    """Tell whether the whole picture changes, as with a moving camera; ``difference``: see :meth:`Newcomers.see`."""
    return int(np.count_nonzero(difference > NOTICED)) > _MOVING * difference.size


class Newcomers:
    """Remembers how much each place changed lately. Frames must be given in order."""

    def __init__(self) -> None:
        self._lately: NDArray[np.float32] | None = None

    def see(self, difference: NDArray[np.uint8]) -> bool:
        """Tell whether a place changes by more than noise, and by more than its surroundings did lately.

        Args:
            difference: uint8 [h, w], C-contiguous: the difference from the last answer's frame, in grey levels.
        """
        if self._lately is None:
            self._lately = difference.astype(np.float32)
            return False
        most = int(_MOVING * difference.size)
        return bool(see(difference, self._lately, NOTICED, most, _DECAY))

    def forget(self) -> None:
        """Forget all changes, because the stream began anew."""
        self._lately = None
