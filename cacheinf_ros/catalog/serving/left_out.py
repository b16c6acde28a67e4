# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tells the user which variants could not be loaded, and that others serve in their place for a while."""

from __future__ import annotations

from cacheinf_ros.catalog.scheduling import Option
from cacheinf_ros.catalog.serving.announcer import Announcer
from cacheinf_ros.catalog.variant import Place

_NOTE, _NOTHING = "not_loaded", "n/a"


class LeftOut:
    """Reports variants that are left out: always in diagnostics, and in the log once for each reason."""

    def __init__(self, announcer: Announcer) -> None:
        """Prepare; nothing is reported yet."""
        self._announcer = announcer
        self._reasons: dict[str, dict[tuple[str, Place], str]] = {}  # by model, then by variant and place

    def tell(self, model: str, option: Option, why: str, pause_s: float) -> None:
        """Report that an option is left out for some seconds, and why."""
        reasons = self._reasons.setdefault(model, {})
        is_new = reasons.get(_key(option)) != why
        reasons[_key(option)] = why
        self._note(model)
        if is_new:
            self._announcer.say(
                f"{model}: {_name(_key(option))} is left out, and tried again at most every {pause_s:g} s: {why}"
            )

    def is_usable(self, model: str, option: Option) -> None:
        """Take note that an option was loaded."""
        if self._reasons.get(model, {}).pop(_key(option), None) is not None:
            self._announcer.say(f"{model}: {_name(_key(option))} is used again")
            self._note(model)

    def _note(self, model: str) -> None:
        reasons = "; ".join(f"{_name(key)}: {why}" for key, why in self._reasons[model].items())
        self._announcer.of(model).note(_NOTE, reasons or _NOTHING)


def _key(option: Option) -> tuple[str, Place]:
    return option.variant.name, option.place


def _name(key: tuple[str, Place]) -> str:
    variant, place = key
    return f"{variant} ({place.value})"
