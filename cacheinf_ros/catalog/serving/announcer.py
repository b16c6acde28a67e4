# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How models that are served tell the user what they do: /diagnostics and the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Announcer(NamedTuple):
    """Tells the user something in /diagnostics or in the log.

    Attributes:
        note: called with a name and a text for /diagnostics.
        say: called with a line for the log.
    """

    note: Callable[[str, str], None]
    say: Callable[[str], None]

    def of(self, model: str) -> Announcer:
        """Return an announcer for one model, whose name is put before those of its notes."""

        def note(name: str, text: str) -> None:
            self.note(f"{model}: {name}", text)

        return Announcer(note, self.say)
