# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tells the user which variants could not be loaded, and that others serve in their place for a while."""

from __future__ import annotations

from cacheinf_ros.catalog.scheduling import Option
from cacheinf_ros.catalog.serving.announcer import Announcer
from cacheinf_ros.catalog.variant import Place

_NOTE, _NOTHING = "not_loaded", "n/a"
_LONGEST_S = 3600.0


class LeftOut:
    """Reports variants that are left out: always in diagnostics, and in the log once for each reason."""

    def __init__(self, announcer: Announcer) -> None:
        """Prepare; nothing is reported yet."""
        self._announcer = announcer
        self._reasons: dict[str, dict[tuple[str, Place], str]] = {}  # by model, then by variant and place
        self._pauses_s: dict[tuple[str, str, Place], float] = {}

    def pause_s(self, model: str, option: Option, least_s: float) -> float:
        """Return for how many seconds an option is to be left out: each time twice as long, up to an hour."""
        key = model, *_key(option)
        self._pauses_s[key] = min(2 * self._pauses_s.get(key, least_s / 2), max(least_s, _LONGEST_S))
        return self._pauses_s[key]

    def tell(self, model: str, option: Option, why: str, pause_s: float) -> None:
        """Report that an option is left out for some seconds, and why."""
        reasons = self._reasons.setdefault(model, {})
        is_new = reasons.get(_key(option)) != why
        reasons[_key(option)] = why
        self._note(model)
        if is_new:
            self._announcer.say(
                f"{model}: {_name(_key(option))} is left out, tried again after {pause_s:g} s, then more seldom: {why}"
            )

    def is_usable(self, model: str, option: Option) -> None:
        """Take note that an option was loaded."""
        self._pauses_s.pop((model, *_key(option)), None)
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
