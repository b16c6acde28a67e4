# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Decoding of the bytes of an image message to a BGR array, for every encoding that ROS has a name for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import MessageError, quoted
from cacheinf_ros.sources.value_range import ValueRange

NOT_A_PICTURE_REMEDY = "publish the camera's colour or grey pictures instead, as bgr8, rgb8 or mono8"
RANGE_REMEDY = (
    f"{NOT_A_PICTURE_REMEDY}; or say which of its values are black and white: image_values: [0.3, 5.0] for nodes, "
    "?values=0.3..5 behind the name of a bag or folder"
)

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
    """The fields of a ``sensor_msgs/Image``: ``step`` is bytes per row, ``raw`` all bytes in a flat array."""

    encoding: str
    height: int
    width: int
    step: int
    raw: Pixels
    is_bigendian: bool = False
    value_range: ValueRange | None = None
    """Which values of more than 8 bits, one to a pixel, are black and white; None: the upper byte of 16 is kept."""

    def plane(self, *, rows: int, columns: int, channels: int, start: int = 0, step: int | None = None) -> Pixels:
        """Return a view of some of the bytes as uint8 [rows, columns, channels]; nothing is copied.

        Args:
            rows, columns, channels: the shape; each value is a byte.
            start: byte offset of the plane.
            step: bytes per row, padding included; None: the image's step.

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

    def upper_bytes(self, pixels: Pixels) -> Pixels:
        """Return the upper byte of each 16-bit value, contiguous; ``pixels`` is a :meth:`plane` of their bytes."""
        return np.ascontiguousarray(pixels[:, :, 0 if self.is_bigendian else 1 :: 2])

    def scaled(self, kind: str, value_range: ValueRange) -> Pixels:
        """Return the only plane, one number to a pixel, as grey levels.

        Args:
            kind: type of the numbers without their byte order, such as "u2" or "f4".
            value_range: which numbers are black and white.

        Returns:
            contiguous uint8 [height, width, 1].
        """
        size = np.dtype(kind).itemsize
        numbers = np.ascontiguousarray(self.plane(rows=self.height, columns=self.width, channels=size))
        return value_range.to_8_bits(numbers.view((">" if self.is_bigendian else "<") + kind))

    def require_even(self, *, height: bool) -> None:
        """Raise MessageError for an odd width, or height if ``height``: pixels share their colour in pairs."""
        if self.width % 2 or (height and self.height % 2):
            sides = "height and width" if height else "width"
            raise MessageError(
                f"{self.encoding} needs an even {sides}, this image has {self.height} x {self.width} pixels; "
                "check the camera driver"
            )

    def require_sides(self, smallest: int) -> None:
        """Raise MessageError for an image with fewer pixels per side."""
        if min(self.height, self.width) < smallest:
            raise MessageError(
                f"{self.encoding} needs {smallest} x {smallest} pixels or more, this image has {self.height} x "
                f"{self.width}; choose a larger region in the camera driver"
            )


class Layout(Protocol):
    """A way to store pixels in an image message."""

    def to_bgr(self, image: RawImage) -> Pixels:
        """Return uint8 [height, width, 3], BGR; shares memory with the image where nothing has to be converted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interleaved:
    """All channels of a pixel side by side; where there are several, the upper byte of 16-bit channels is kept."""

    channels: int
    depth: int = 1
    """The bytes per channel, 1 or 2."""
    code: int | None = None
    """OpenCV's conversion code to BGR; None where the pixels are BGR."""

    def to_bgr(self, image: RawImage) -> Pixels:
        """Implement :meth:`Layout.to_bgr`."""
        if self.depth == 2 and self.channels == 1 and image.value_range is not None:
            pixels = image.scaled("u2", image.value_range)
        else:
            pixels = image.plane(rows=image.height, columns=image.width, channels=self.channels * self.depth)
            pixels = pixels if self.depth == 1 else image.upper_bytes(pixels)
        if self.code is None:
            return np.ascontiguousarray(pixels)
        return np.asarray(cv2.cvtColor(pixels, self.code), np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedOrFloat:
    """One signed or floating-point number per pixel, which is a picture by a range of values only."""

    kind: str
    """The type of the numbers, without byte order, such as "f4"."""

    def to_bgr(self, image: RawImage) -> Pixels:
        """Implement :meth:`Layout.to_bgr`; raises :class:`MessageError` without a range of values."""
        if image.value_range is None:
            raise _not_a_picture(image.encoding, RANGE_REMEDY)
        return np.asarray(cv2.cvtColor(image.scaled(self.kind, image.value_range), cv2.COLOR_GRAY2BGR), np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mosaic:
    """One value per pixel behind a Bayer filter; the other two colours are interpolated from the neighbours."""

    code: int
    depth: int = 1

    def to_bgr(self, image: RawImage) -> Pixels:
        """Implement :meth:`Layout.to_bgr`."""
        image.require_sides(3)  # OpenCV turns smaller images black without an error
        return Interleaved(channels=1, depth=self.depth, code=self.code).to_bgr(image)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """YUV 4:2:2 in one plane: every pixel has its own Y, two neighbours in a row share U and V."""

    code: int

    def to_bgr(self, image: RawImage) -> Pixels:
        """Implement :meth:`Layout.to_bgr`."""
        image.require_even(height=False)
        return Interleaved(channels=2, code=self.code).to_bgr(image)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarterChroma:
    """YUV 4:2:0 in two planes: Y, then a pair of U and V for every 2 x 2 pixels, in rows of the same step."""

    code: int

    def to_bgr(self, image: RawImage) -> Pixels:
        """Implement :meth:`Layout.to_bgr`."""
        image.require_even(height=True)
        height, width = image.height, image.width
        luma = image.plane(rows=height, columns=width, channels=1)
        chroma = image.plane(rows=height // 2, columns=width // 2, channels=2, start=height * image.step)
        return np.asarray(cv2.cvtColorTwoPlane(luma, chroma, self.code), np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class FullChroma:
    """YUV 4:4:4 in two planes: Y, then a pair of U and V for every pixel, in rows of twice the step."""

    def to_bgr(self, image: RawImage) -> Pixels:
        """Implement :meth:`Layout.to_bgr`."""
        height, width, step = image.height, image.width, image.step
        luma = image.plane(rows=height, columns=width, channels=1)
        chroma = image.plane(rows=height, columns=width, channels=2, start=height * step, step=2 * step)
        yuv = cv2.merge((np.maximum(luma, _BLACK), chroma))
        return np.asarray(cv2.transform(yuv, _BT601_TO_BGR), np.uint8)


# {} is the number of bits, 8 or 16
_FAMILIES: dict[str, Interleaved | Mosaic] = {
    "bgr{}": Interleaved(channels=3),
    "rgb{}": Interleaved(channels=3, code=cv2.COLOR_RGB2BGR),
    "bgra{}": Interleaved(channels=4, code=cv2.COLOR_BGRA2BGR),
    "rgba{}": Interleaved(channels=4, code=cv2.COLOR_RGBA2BGR),
    "mono{}": Interleaved(channels=1, code=cv2.COLOR_GRAY2BGR),
    # the OpenCV names state no colour order; like cv_bridge we assume OpenCV's own
    "{}UC1": Interleaved(channels=1, code=cv2.COLOR_GRAY2BGR),
    "{}UC3": Interleaved(channels=3),
    "{}UC4": Interleaved(channels=4, code=cv2.COLOR_BGRA2BGR),
    # not OpenCV's two-letter names (BayerRG), which begin at the second pixel of the second row
    "bayer_rggb{}": Mosaic(code=cv2.COLOR_BayerRGGB2BGR),
    "bayer_bggr{}": Mosaic(code=cv2.COLOR_BayerBGGR2BGR),
    "bayer_gbrg{}": Mosaic(code=cv2.COLOR_BayerGBRG2BGR),
    "bayer_grbg{}": Mosaic(code=cv2.COLOR_BayerGRBG2BGR),
}
_LAYOUTS: dict[str, Layout] = {
    **{name.format(8 * depth): replace(layout, depth=depth) for depth in (1, 2) for name, layout in _FAMILIES.items()},
    "uyvy": Paired(code=cv2.COLOR_YUV2BGR_UYVY),
    "yuv422": Paired(code=cv2.COLOR_YUV2BGR_UYVY),
    "yuyv": Paired(code=cv2.COLOR_YUV2BGR_YUYV),
    "yuv422_yuy2": Paired(code=cv2.COLOR_YUV2BGR_YUYV),
    "nv12": QuarterChroma(code=cv2.COLOR_YUV2BGR_NV12),
    "nv21": QuarterChroma(code=cv2.COLOR_YUV2BGR_NV21),
    "nv24": FullChroma(),
}
_BY_RANGE = {
    "16SC1": SignedOrFloat(kind="i2"),
    "32FC1": SignedOrFloat(kind="f4"),
    "64FC1": SignedOrFloat(kind="f8"),
}
NEEDS_RANGE = frozenset(_BY_RANGE)
"""Encodings that are pictures by a range of values only."""
_NO_PICTURES = {
    **{f"{bits}FC{n}": "a depth or float image" for bits in (32, 64) for n in (1, 2, 3, 4)},
    **{f"{bits}SC{n}": "an image of signed numbers" for bits in (8, 16, 32) for n in (1, 2, 3, 4)},
    **{f"{bits}UC2": "an image of two channels" for bits in (8, 16)},
}


def decode_image(
    encoding: str,
    height: int,
    width: int,
    step: int,
    data: Any,
    is_bigendian: bool = False,
    value_range: ValueRange | None = None,
) -> NDArray[np.uint8]:
    """Return the picture in the fields of a ``sensor_msgs/Image``.

    Args:
        encoding: a name from sensor_msgs/image_encodings.hpp: rgb, bgr and grey of 8 or 16 bits, Bayer, YUV; with
            ``value_range`` also 16SC1, 32FC1 and 64FC1.
        height, width: size in pixels.
        step: bytes per row, padding included; for nv12, nv21 and nv24, per row of the luma plane.
        data: the pixels, as anything with a buffer of bytes (bytes, array.array, uint8 array).
        is_bigendian: byte order of pixels with more than 8 bits.
        value_range: which values of more than 8 bits, one to a pixel, become black and white; of other images, and
            where it is None, the upper byte of 16 bits is kept.

    Returns:
        uint8 [height, width, 3], BGR, contiguous. It shares memory with ``data`` where nothing had to be converted.

    Raises:
        MessageError: the encoding is unknown or no camera picture, or the sizes contradict each other.
    """
    layout = _LAYOUTS.get(encoding) or _BY_RANGE.get(encoding)
    if layout is None:
        refuse_other_than_pictures(encoding)
        raise MessageError(f"image encoding {quoted(encoding)} is not supported; publish one of {', '.join(_LAYOUTS)}")
    if height < 1 or width < 1:
        raise MessageError(f"an image of {height} x {width} pixels is empty; check the camera driver")
    raw = np.frombuffer(data, np.uint8)
    return layout.to_bgr(
        RawImage(
            encoding=encoding,
            height=height,
            width=width,
            step=step,
            raw=raw,
            is_bigendian=is_bigendian,
            value_range=value_range,
        )
    )


def refuse_other_than_pictures(encoding: str, remedy: str = NOT_A_PICTURE_REMEDY) -> None:
    """Raise :class:`MessageError` for an encoding that ROS names but that holds no camera picture."""
    if encoding in _NO_PICTURES:
        raise _not_a_picture(encoding, remedy)


def _not_a_picture(encoding: str, remedy: str) -> MessageError:
    return MessageError(f"{encoding} is {_NO_PICTURES[encoding]}, not a camera picture; {remedy}")
