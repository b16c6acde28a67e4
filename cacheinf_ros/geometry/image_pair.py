# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Two images of one shape, as the compiled kernels take them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import MatchingError

MAX_CHANNELS = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImagePair:
    """A reference and a frame of one shape.

    Attributes:
        images: reference and frame, uint8 [height, width * channels], C-contiguous.
        image_size: (height, width), in pixels.
        channels: bytes per pixel.
    """

    images: tuple[NDArray[np.uint8], NDArray[np.uint8]]
    image_size: tuple[int, int]
    channels: int

    @classmethod
    def of(cls, reference: NDArray[np.uint8], frame: NDArray[np.uint8]) -> ImagePair:
        """Pair two images, uint8 [height, width] or [height, width, channels]; else raise :class:`MatchingError`."""
        check_image(reference)
        check_image(frame)
        if reference.shape != frame.shape:
            raise MatchingError(
                f"reference {reference.shape} and frame {frame.shape} differ in shape: "
                "resize one, or drop the reference"
            )
        height, width = frame.shape[:2]
        return cls(
            images=(_in_rows(reference), _in_rows(frame)),
            image_size=(height, width),
            channels=frame.size // (height * width),
        )


def _in_rows(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(image).reshape(len(image), -1)


def check_image(image: NDArray[np.uint8]) -> None:
    """Raise :class:`MatchingError` unless this is uint8 [height, width] or [height, width, 1 to 4 channels]."""
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8:
        kind = getattr(image, "dtype", type(image).__name__)
        raise MatchingError(f"an image to match is a uint8 array, not {kind}: convert it to 8 bits per channel")
    if image.ndim not in (2, 3) or image.size == 0 or (image.ndim == 3 and image.shape[2] > MAX_CHANNELS):
        raise MatchingError(
            f"an image to match is [height, width] or [height, width, 1 to {MAX_CHANNELS} channels] with at least "
            f"one pixel, not {image.shape}"
        )
