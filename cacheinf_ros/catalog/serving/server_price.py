# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The present price of the server, by the load that it reports."""

from __future__ import annotations

from collections.abc import Callable

from cacheinf_ros.catalog.scheduling import price_factor


class ServerPrice:
    """Computes the server's price from its load, and reports it in diagnostics."""

    def __init__(self, load: Callable[[], float] | None, note: Callable[[str, str], None]) -> None:
        """Prepare; nothing is reported yet.

        Args:
            load: returns the share of its time that the server is busy, 0 to 1; None: there is no server.
            note: called with a name and a text for diagnostics.
        """
        self._load = load
        self._note = note
        self._told: tuple[float, float] | None = None  # load and factor that were reported last

    def factor(self, most: float) -> float:
        """Return the factor on the server's usual price, at most ``most``."""
        if self._load is None:
            return 1.0
        load = self._load()
        factor = price_factor(load, most)
        if (load, factor) != self._told:
            self._told = load, factor
            self._note("server_price", f"{factor:.2f} times the usual, at a load of {load:.1%}")
        return factor
