# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the server costs at present, by what it says of its load."""

from __future__ import annotations

from collections.abc import Callable

from cacheinf_ros.catalog.scheduling import price_factor


class ServerPrice:
    """Follows the load that servers tell."""

    def __init__(self, load: Callable[[], float] | None, note: Callable[[str, str], None]) -> None:
        """Prepare.

        Args:
            load: which share of the server's time is taken, 0 to 1; None: there is no server.
            note: takes names and texts for diagnostics.
        """
        self._load = load
        self._note = note
        self._told: tuple[float, float] | None = None  # load and factor, in diagnostics

    def factor(self, most: float) -> float:
        """How many times its usual price the server costs, at most so many."""
        if self._load is None:
            return 1.0
        load = self._load()
        factor = price_factor(load, most)
        if (load, factor) != self._told:
            self._told = load, factor
            self._note("server_price", f"{factor:.2f} times the usual, at a load of {load:.1%}")
        return factor
