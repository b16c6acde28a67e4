# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the server costs at present, by what it says of its load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from cacheinf_ros.catalog.scheduling import price_factor


class TellsLoad(Protocol):
    """A place that knows how busy its server is."""

    @property
    def server_load(self) -> float:
        """Share of the server's time that is taken, 0 to 1, as the server said last; 0: it has said nothing."""
        ...


class ServerPrice:
    """Follows the load that servers tell."""

    def __init__(self, places: Sequence[TellsLoad], note: Callable[[str, str], None]) -> None:
        """``note``: takes names and texts for diagnostics."""
        self._places = places
        self._note = note

    def factor(self, most: float) -> float:
        """How many times its usual price the server costs, at most so many."""
        load = max((place.server_load for place in self._places), default=0.0)
        factor = price_factor(load, most)
        if self._places:
            self._note("server_price", f"{factor:.2f} times the usual, at a load of {load:.1%}")
        return factor
