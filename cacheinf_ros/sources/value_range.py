# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Pictures of 8 bits from the raw values of thermal, depth and other cameras that have more."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import isfinite

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import ConfigError, quoted

_LEVELS = 255
_EXAMPLE = "give what becomes black and what becomes white, such as 7000..9000"


@dataclass(frozen=True, slots=True)
class ValueRange:
    """The raw values that become black and white; what lies between them becomes grey in proportion.

    Attributes:
        black: the value that becomes 0.
        white: the value that becomes 255; may be less than ``black``.

    Raises:
        ConfigError: the values are equal, or not finite.
    """

    black: float
    white: float

    def __post_init__(self) -> None:
        """Check the values."""
        if not (isfinite(self.black) and isfinite(self.white)) or self.black == self.white:
            raise ConfigError(f"values {self}: {_EXAMPLE}")

    def __str__(self) -> str:
        """Return the range as :func:`parse_values` reads it."""
        return f"{self.black:g}..{self.white:g}"

    def to_8_bits(self, values: NDArray[np.generic]) -> NDArray[np.uint8]:
        """Convert raw values; those beyond black and white become black and white.

        Args:
            values: numbers, of any shape and byte order. What is not a number counts as 0, which is how REP 118 marks
                distances that are not known in images of integers.

        Returns:
            contiguous array of the same shape.
        """
        native = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
        if native.dtype in (np.uint16, np.int16):
            return _table(self, native.dtype.str)[native.view(np.uint16)]
        floats = native.astype(np.result_type(native.dtype, np.float32))
        return self._levels(np.nan_to_num(floats, copy=False, nan=0.0, posinf=np.inf, neginf=-np.inf))

    def to_bgr(self, stored: NDArray[np.generic]) -> NDArray[np.uint8]:
        """Convert an image as OpenCV reads it from a file: [height, width] or [height, width, 3].

        Returns:
            uint8 [height, width, 3]; pixels of 8 bits stay as they are.
        """
        pixels = np.asarray(stored, np.uint8) if stored.dtype == np.uint8 else self.to_8_bits(stored)
        return pixels if pixels.ndim == 3 else np.asarray(cv2.cvtColor(pixels, cv2.COLOR_GRAY2BGR), np.uint8)

    def _levels(self, raw: NDArray[np.floating]) -> NDArray[np.uint8]:
        """Convert floats, which are overwritten: images of them are large."""
        raw -= self.black
        raw *= _LEVELS / (self.white - self.black)
        np.clip(raw, 0, _LEVELS, out=raw)
        return np.rint(raw, out=raw).astype(np.uint8)


def parse_values(text: str) -> ValueRange:
    """Read a range such as "7000..9000" or "0.3..5"; raises :class:`ConfigError` where it is none."""
    black, separator, white = text.partition("..")
    try:
        return ValueRange(float(black), float(white if separator else "none"))
    except ValueError:
        raise ConfigError(f"values {quoted(text)}: {_EXAMPLE}") from None


@cache
def _table(values: ValueRange, integers: str) -> NDArray[np.uint8]:
    """Return the level of each value of 16 bits, in the order of their bits."""
    return values._levels(np.arange(2**16, dtype=np.uint16).view(integers).astype(np.float64))
