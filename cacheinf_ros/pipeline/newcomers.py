# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Sees what comes into a picture that is otherwise at rest, though it changes the picture no more than other things do.

Limits on change hold for the whole picture: where cars pass below, they are wide, and somebody who comes in at the edge
stays within them. So a place is also compared with what happened around it lately.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

_NOTICED = 16  # grey levels: noise and slow changes of light stay below
_AT_REST = 0.9  # share of the picture: where more of it changes, the camera moves, and every place does
_DECAY = 0.98  # per frame, of what is remembered: half of it after 34 frames
_AROUND = np.ones((17, 17), np.uint8)  # places of the thumbnail: what moved there may well move here


class Newcomers:
    """Remembers how much each place changed. One frame after the other."""

    def __init__(self) -> None:
        self._lately: NDArray[np.float32] | None = None

    def see(self, difference: NDArray[np.uint8]) -> bool:
        """Whether a place changes by more than noise and than its surroundings did lately.

        Args:
            difference: uint8 [h, w], by how much the frame differs from that of the last answer, in grey levels.
        """
        lately = self._lately
        self._lately = (
            difference.astype(np.float32)
            if lately is None
            else np.maximum(_DECAY * lately, difference, dtype=np.float32)
        )
        if lately is None:
            return False
        noticed = difference > _NOTICED
        count = np.count_nonzero(noticed)
        if not 0 < count <= (1 - _AT_REST) * noticed.size:
            return False
        return bool((difference > cv2.dilate(lately, _AROUND))[noticed].any())

    def forget(self) -> None:
        """The stream began anew."""
        self._lately = None
