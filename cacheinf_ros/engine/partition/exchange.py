# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The data that two machines send each other while a frame is computed."""

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
        rows: the rows of the tensor that the patch covers.
        mask: uint8 [rows, width], 1 where the patch has a new value.
        values: of a feature map float32 [pixels, channels] in row-major order, or uint8 where it holds levels; of
            another tensor all of its values, or none.
        is_map: whether the tensor is a feature map.
    """

    rows: Rows
    mask: NDArray[np.uint8]
    values: NDArray[Any]
    is_map: bool = True


class Exchange(Protocol):
    """A connection to the other machine while a frame is computed."""

    def send(self, tensor: str, patch: Patch) -> None:
        """Send a patch of a tensor, without waiting for anything."""
        ...

    def receive(self, tensor: str, rows: Rows) -> Patch:
        """Wait for a tensor's patch from the other machine; raises :class:`LinkError` if it does not come."""
        ...
