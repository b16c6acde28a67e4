# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tells the user which variants could not be loaded, and that others serve in their place for a while."""

from __future__ import annotations

from dataclasses import dataclass

from cacheinf_ros.catalog.scheduling import Option
from cacheinf_ros.catalog.serving.announcer import Announcer
from cacheinf_ros.catalog.variant import Place

_NOTE, _NOTHING = "not_loaded", "n/a"
_LONGEST_S = 3600.0
_Key = tuple[str, Place]  # of an option: its variant's name, and where it runs


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failed:
    """An option that could not be loaded.

    Attributes:
        why: the reason.
        pause_s: for how many seconds it was left out last.
    """

    why: str
    pause_s: float


class LeftOut:
    """Reports variants that are left out: always in diagnostics, and in the log once for each reason."""

    def __init__(self, announcer: Announcer) -> None:
        """Prepare; nothing is reported yet."""
        self._announcer = announcer
        self._failed: dict[str, dict[_Key, _Failed]] = {}  # by model, those that were not loaded since

    def leave_out(self, model: str, option: Option, why: str, pause_s: float, *, grows: bool = True) -> float:
        """Report that an option is left out; returns for how many seconds: each time twice as long, up to an hour.

        Args:
            why: why it could not be loaded.
            pause_s: for how many seconds it is left out at first.
            grows: whether it is left out for longer each time.
        """
        before = self._of(model).get(_key(option))
        if before is not None and grows:
            pause_s = min(2 * before.pause_s, max(pause_s, _LONGEST_S))
        self._of(model)[_key(option)] = _Failed(why=why, pause_s=pause_s)
        self._note(model)
        if before is None or before.why != why:
            again = f"tried again after {pause_s:g} s{', then more seldom' if grows else ''}"
            self._announcer.say(f"{model}: {_name(_key(option))} is left out, {again}: {why}")
        return pause_s

    def is_usable(self, model: str, option: Option) -> None:
        """Take note that an option was loaded."""
        if self._of(model).pop(_key(option), None) is not None:
            self._announcer.say(f"{model}: {_name(_key(option))} is used again")
            self._note(model)

    def _of(self, model: str) -> dict[_Key, _Failed]:
        return self._failed.setdefault(model, {})

    def _note(self, model: str) -> None:
        reasons = "; ".join(f"{_name(key)}: {failed.why}" for key, failed in self._of(model).items())
        self._announcer.of(model).note(_NOTE, reasons or _NOTHING)


def _key(option: Option) -> _Key:
    return option.variant.name, option.place


def _name(key: _Key) -> str:
    variant, place = key
    return f"{variant} ({place.value})"
