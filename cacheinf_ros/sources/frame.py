# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The interface of frames and of their sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frame:
    """One picture of a stream.

    Attributes:
        index: position in the source, from 0.
        stamp_ns: time since the first frame of the source, in nanoseconds.
        image: uint8 [height, width, 3], BGR; not to be changed, as sources may keep it.
    """

    index: int
    stamp_ns: int
    image: NDArray[np.uint8]


@runtime_checkable
class HasClock(Protocol):
    """A recording that says when its first picture was taken, so that another can be compared with it."""

    @property
    def begins_ns(self) -> int:
        """When the first picture was taken, in nanoseconds; raises :class:`SourceError` where it cannot be read."""
        ...


class Source(Protocol):
    """A stream of frames that can be iterated any number of times, always from the start.

    Attributes:
        name: name of the source in reports.
        fps: frames per second; an estimate where unknown.
        length: number of frames (an estimate for videos); None where unknown.
    """

    name: str
    fps: float
    length: int | None

    def __iter__(self) -> Iterator[Frame]:
        """Yield the frames in order; raises :class:`SourceError` where one cannot be read."""
        ...
