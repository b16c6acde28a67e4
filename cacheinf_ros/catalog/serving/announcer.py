# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Where models that are served say what they do: /diagnostics and the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Announcer(NamedTuple):
    """Two ways to tell the user something.

    Attributes:
        note: takes names and texts for diagnostics.
        say: takes lines for the log.
    """

    note: Callable[[str, str], None]
    say: Callable[[str], None]

    def of(self, model: str) -> Announcer:
        """Announce for one model: its name goes before those of its notes."""

        def note(name: str, text: str) -> None:
            self.note(f"{model}: {name}", text)

        return Announcer(note, self.say)
