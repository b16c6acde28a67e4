# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Pictures of 8 bits from the raw values of thermal, depth and other cameras that have more."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import ConfigError, quoted

_LEVELS = 255
_LARGEST, _LEAST_APART = 1e9, 1e-6  # within these, nothing overflows in float32


@dataclass(frozen=True, slots=True)
class ValueRange:
    """The raw values that become black and white; what lies between them becomes grey in proportion.

    Attributes:
        black: the value that becomes 0.
        white: the value that becomes 255; may be less than ``black``.

    Raises:
        ConfigError: the values are the same, not finite, or beyond a thousand millions.
    """

    black: float
    white: float

    def __post_init__(self) -> None:
        """Check the values."""
        are_numbers = abs(self.black) <= _LARGEST and abs(self.white) <= _LARGEST  # also false for NaN
        if not (are_numbers and abs(self.white - self.black) >= _LEAST_APART):
            raise ConfigError(
                f"{self} are not the raw values of black and white: give two different ones, of at most {_LARGEST:g}"
            )

    def __str__(self) -> str:
        """Return the range as :func:`parse_range` reads it."""
        return "..".join(repr(float(end)).removesuffix(".0") for end in (self.black, self.white))

    def to_8_bits(self, raw: NDArray[np.generic]) -> NDArray[np.uint8]:
        """Convert raw values; those beyond black and white become black and white.

        Args:
            raw: numbers, of any shape and byte order. What is not a number counts as 0, which is how REP 118 marks
                distances that are not known in images of integers.

        Returns:
            contiguous array of the same shape.
        """
        native = np.ascontiguousarray(raw, raw.dtype.newbyteorder("="))
        if native.dtype in (np.uint16, np.int16):
            return _table(self, native.dtype.str)[native.view(np.uint16)]
        return self._levels(native.astype(np.result_type(native.dtype, np.float32)))

    def to_bgr(self, raw: NDArray[np.generic]) -> NDArray[np.uint8]:
        """Convert an image, [height, width], to uint8 [height, width, 3]; unsigned 8 bits stay as they are."""
        grey = raw if raw.dtype == np.uint8 else self.to_8_bits(raw)
        return np.asarray(cv2.cvtColor(np.asarray(grey, np.uint8), cv2.COLOR_GRAY2BGR), np.uint8)

    def _levels(self, raw: NDArray[np.floating]) -> NDArray[np.uint8]:
        """Convert floats, which are overwritten: images of them are large."""
        np.copyto(raw, 0, where=np.isnan(raw))
        with np.errstate(over="ignore"):  # a message may hold any number
            raw -= self.black
            raw *= _LEVELS / (self.white - self.black)
        np.clip(raw, 0, _LEVELS, out=raw)
        return np.rint(raw, out=raw).astype(np.uint8)


def parse_range(text: str) -> ValueRange:
    """Read a range such as "7000..9000" or "0.3..5"; raises :class:`ConfigError` where it is none."""
    black, separator, white = text.partition("..")
    try:
        return ValueRange(float(black), float(white if separator else "none"))
    except (ConfigError, ValueError):
        raise ConfigError(
            f"values {quoted(text)}: give what becomes black and what becomes white, such as 7000..9000"
        ) from None


@cache
def _table(value_range: ValueRange, kind: str) -> NDArray[np.uint8]:
    """Return the level of each integer of 16 bits, by its bits."""
    return value_range._levels(np.arange(2**16, dtype=np.uint16).view(kind).astype(np.float64))
