# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What crosses between two machines while a frame is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.partition.partition import Rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Patch:
    """New values of some pixels of a tensor.

    Attributes:
        rows: of the tensor's pixels, among which they lie.
        mask: uint8 [rows, width], 1 where there is one.
        is_map: whether it is of a feature map.
        values: float32, of a map of levels uint8, [pixels, channels] in row-major order; of what is no feature map: all
            of it, or nothing.
    """

    rows: Rows
    mask: NDArray[np.uint8]
    values: NDArray[Any]
    is_map: bool = True


class Exchange(Protocol):
    """The way to the other machine while a frame is computed."""

    def send(self, tensor: str, patch: Patch) -> None:
        """Send without waiting for anything."""
        ...

    def receive(self, tensor: str, rows: Rows) -> Patch:
        """Wait for what the other machine sends of a tensor; raises :class:`LinkError` if it does not come."""
        ...
