# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What every source of frames yields, and what a source is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frame:
    """One picture of a stream.

    Attributes:
        index: position in the source, from 0.
        stamp_ns: time since the first frame of the source, in nanoseconds.
        image: uint8 [height, width, 3], BGR. Read only by agreement: sources may keep it.
    """

    index: int
    stamp_ns: int
    image: NDArray[np.uint8]


class Source(Protocol):
    """A stream of frames that can be iterated any number of times, always from the start.

    Attributes:
        name: how reports call it.
        fps: frames per second; an estimate where the source does not know.
        length: number of frames (an estimate for videos); None where it is unknown.
    """

    name: str
    fps: float
    length: int | None

    def __iter__(self) -> Iterator[Frame]:
        """Yield the frames in order; raises :class:`SourceError` where one cannot be read."""
        ...
