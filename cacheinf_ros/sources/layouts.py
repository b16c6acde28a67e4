# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How the pixels of a raw image lie in memory, and how each layout becomes BGR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import MessageError

Pixels = NDArray[np.uint8]

# ITU-R BT.601 with Y in 16..235, as in OpenCV's other conversions from YUV; the columns are Y, U, V and a constant
_BT601_TO_BGR = np.array(
    [
        [1.164384, 2.017232, 0.0, -16 * 1.164384 - 128 * 2.017232],
        [1.164384, -0.391762, -0.812968, -16 * 1.164384 + 128 * (0.391762 + 0.812968)],
        [1.164384, 0.0, 1.596027, -16 * 1.164384 - 128 * 1.596027],
    ]
)
_BLACK = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RawImage:
    """The fields of a ``sensor_msgs/Image``: ``step`` is bytes per row, ``raw`` is all bytes in one row."""

    encoding: str
    height: int
    width: int
    step: int
    raw: Pixels
    is_bigendian: bool = False

    def plane(self, *, rows: int, columns: int, channels: int, start: int = 0, step: int | None = None) -> Pixels:
        """Look at some of the bytes as uint8 [rows, columns, channels]; copies nothing.

        Args:
            rows, columns, channels: the shape, a byte for each value.
            start: where the plane begins.
            step: bytes per row, padding included; None takes that of the image.

        Raises:
            MessageError: the rows are longer than a step, or the plane is longer than the data.
        """
        step = self.step if step is None else step
        used = columns * channels
        if step < used:
            raise MessageError(
                f"step {step} is shorter than a row of {columns} pixels ({used} bytes); check the driver"
            )
        # the padding after the last row is optional: some drivers leave it out
        if self.raw.size < start + step * (rows - 1) + used:
            raise MessageError(
                f"{self.raw.size} bytes are too few for {self.height} rows of step {self.step} as {self.encoding}; "
                "check the camera driver"
            )
        view = np.ndarray((rows, columns, channels), np.uint8, self.raw, start, (step, channels, 1))
        view.flags.writeable = False
        return view

    def require_even(self, *, height: bool) -> None:
        """Refuse an odd width, and where ``height`` is true an odd height: pixels share their colour in pairs."""
        if self.width % 2 or (height and self.height % 2):
            sides = "height and width" if height else "width"
            raise MessageError(
                f"{self.encoding} needs an even {sides}, this image has {self.height} x {self.width} pixels; "
                "check the camera driver"
            )

    def require_sides(self, smallest: int) -> None:
        """Refuse an image with fewer pixels per side."""
        if min(self.height, self.width) < smallest:
            raise MessageError(
                f"{self.encoding} needs {smallest} x {smallest} pixels or more, this image has {self.height} x "
                f"{self.width}; choose a larger region in the camera driver"
            )


class Layout(Protocol):
    """A way to store pixels."""

    def to_bgr(self, image: RawImage) -> Pixels:
        """Return uint8 [height, width, 3], BGR; shares memory with the image where nothing has to be converted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interleaved:
    """All channels of a pixel side by side; of 16-bit channels the upper byte is kept."""

    channels: int
    depth: int = 1
    """Bytes per channel, 1 or 2."""
    code: int | None = None
    """OpenCV's conversion to BGR; None where it is BGR."""

    def to_bgr(self, image: RawImage) -> Pixels:
        """See :class:`Layout`."""
        pixels = image.plane(rows=image.height, columns=image.width, channels=self.channels * self.depth)
        if self.depth == 2:
            pixels = np.ascontiguousarray(pixels[:, :, 0 if image.is_bigendian else 1 :: 2])
        if self.code is None:
            return np.ascontiguousarray(pixels)
        return np.asarray(cv2.cvtColor(pixels, self.code), np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mosaic:
    """One value per pixel behind a Bayer filter; the other two colours come from the neighbours."""

    code: int
    depth: int = 1

    def to_bgr(self, image: RawImage) -> Pixels:
        """See :class:`Layout`."""
        image.require_sides(3)  # OpenCV makes smaller ones black, without an error
        return Interleaved(channels=1, depth=self.depth, code=self.code).to_bgr(image)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """YUV 4:2:2 in one plane: every pixel has its Y, two neighbours in a row share U and V."""

    code: int

    def to_bgr(self, image: RawImage) -> Pixels:
        """See :class:`Layout`."""
        image.require_even(height=False)
        return Interleaved(channels=2, code=self.code).to_bgr(image)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarterChroma:
    """YUV 4:2:0 in two planes: Y, then a pair of U and V for every 2 x 2 pixels, in rows of the same step."""

    code: int

    def to_bgr(self, image: RawImage) -> Pixels:
        """See :class:`Layout`."""
        image.require_even(height=True)
        height, width = image.height, image.width
        luma = image.plane(rows=height, columns=width, channels=1)
        chroma = image.plane(rows=height // 2, columns=width // 2, channels=2, start=height * image.step)
        return np.asarray(cv2.cvtColorTwoPlane(luma, chroma, self.code), np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class FullChroma:
    """YUV 4:4:4 in two planes: Y, then a pair of U and V for every pixel, in rows of twice the step."""

    def to_bgr(self, image: RawImage) -> Pixels:
        """See :class:`Layout`."""
        height, width, step = image.height, image.width, image.step
        luma = image.plane(rows=height, columns=width, channels=1)
        chroma = image.plane(rows=height, columns=width, channels=2, start=height * step, step=2 * step)
        yuv = cv2.merge((np.maximum(luma, _BLACK), chroma))
        return np.asarray(cv2.transform(yuv, _BT601_TO_BGR), np.uint8)
