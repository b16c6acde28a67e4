# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What is kept of each frame for pages to show: a small picture, and how one of this package's ways answered it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap

_WIDTH = 448  # pixels
_QUALITY = 72  # of JPEG
_SIDE_BY_SIDE = 2  # pictures


@dataclass(frozen=True, slots=True, kw_only=True)
class Still:
    """A frame as a small picture.

    Attributes:
        jpeg: a JPEG file, of a width that suits pages.
        size: (height, width) of the frame itself, or of a picture where they are laid on each other; boxes are in its
            pixels.
        pictures: how many pictures it shows side by side; answers are about the left one.
    """

    jpeg: bytes
    size: tuple[int, int]
    pictures: int = 1

    @classmethod
    def of(cls, image: NDArray[np.uint8], pictures: int = 1) -> Still:
        """Shrink a frame, uint8 [height, width, 3].

        More than two pictures would be too narrow side by side. They are laid on each other, the brightest pixel on
        top, which shows an occupancy grid from above.
        """
        if pictures > _SIDE_BY_SIDE:
            rows, columns = image.shape[0], image.shape[1] // pictures
            image, pictures = image.reshape(rows, pictures, columns, -1).max(axis=1), 1
        height, width = image.shape[:2]
        size = (_WIDTH, max(1, round(height * _WIDTH / width)))
        small = np.asarray(
            cv2.resize(image, size, interpolation=cv2.INTER_AREA if width > _WIDTH else cv2.INTER_LINEAR), np.uint8
        )
        return cls(jpeg=as_jpeg(small, _QUALITY), size=(height, width), pictures=pictures)

    def picture(self) -> NDArray[np.uint8]:
        """Return the small picture, uint8 [height, width, 3], to draw on."""
        return np.asarray(cv2.imdecode(np.frombuffer(self.jpeg, np.uint8), cv2.IMREAD_COLOR), np.uint8)


def as_jpeg(image: NDArray[np.uint8], quality: int) -> bytes:
    """Encode a picture as a JPEG file; ``quality``: 1 to 100."""
    done, content = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])
    assert done
    return content.tobytes()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameTrace:
    """How a frame was answered.

    Attributes:
        mode: the engine's mode for this frame, or "held".
        stage_ms: time of each stage.
        reuse_ratio: reuse ratio of the input.
        active_share: FLOPs computed / FLOPs of a dense frame.
        cache_map: what of the frame was reusable; None: there was no map, or nothing was reused.
        asked: the loss that is allowed; None: nothing is promised.
        measured: the loss that the last burst of dense frames showed; None: there was none.
        joules: energy of the machine until the next frame; None without a meter.
        busy_ms: time with all the work after the answer; 0: not known.
    """

    mode: str
    stage_ms: Mapping[str, float] = field(default_factory=dict)
    reuse_ratio: float = 0.0
    active_share: float = 0.0
    cache_map: CacheMap | None = None
    asked: float | None = None
    measured: float | None = None
    joules: float | None = None
    busy_ms: float = 0.0
