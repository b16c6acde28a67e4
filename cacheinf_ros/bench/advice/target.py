# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the user wants to reach with a way to answer a camera's frames."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.errors import ConfigError

DEFAULT_LOSS: float = EngineConfig().max_loss


class Goal(Enum):
    """The quantity that a target limits; the value is the unit of its number."""

    RATE = "fps"
    """The frames per second that must be reached at least, computing one frame after another."""
    LATENCY = "ms"
    """The milliseconds that a frame may take at most, in 95 of 100 frames that are computed."""
    POWER = "W"
    """The watts that the robot's computer may draw at most, by the power model."""
    LOSS = "loss"
    """The loss against dense execution that is allowed at most, like ``max_loss``."""


_NUMBER = r"([\d.]+(?:e[+-]?\d+)?)"
_FORMS = {
    Goal.RATE: re.compile(rf"{_NUMBER} ?(?:fps|hz)", re.IGNORECASE),
    Goal.LATENCY: re.compile(rf"latency={_NUMBER} ?ms", re.IGNORECASE),
    Goal.POWER: re.compile(rf"{_NUMBER} ?w", re.IGNORECASE),
    Goal.LOSS: re.compile(rf"loss={_NUMBER}", re.IGNORECASE),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A limit, by default on the loss.

    Within a limit on the loss the user wants the least time, within any other limit the least loss.
    """

    goal: Goal = Goal.LOSS
    limit: float = DEFAULT_LOSS

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read "15fps", "latency=50ms", "8W" or "loss=0.02"; empty: the default.

        Raises:
            ConfigError: the text has no such form, or the number makes no sense.
        """
        if not text:
            return cls()
        for goal, form in _FORMS.items():
            if found := form.fullmatch(text.strip()):
                try:
                    limit = float(found[1])
                except ValueError:
                    break
                if 0 < limit <= (1.0 if goal is Goal.LOSS else 1e6):
                    return cls(goal=goal, limit=limit)
        raise ConfigError(f"target {text!r}: give frames per second (15fps), latency=50ms, watts (8W), or loss=0.02")

    @property
    def promises(self) -> tuple[float, float, float]:
        """The values of ``max_loss`` that are tried: half of the one asked for, that itself, and 2.5 times as much."""
        asked = min(self.limit, 0.16) if self.goal is Goal.LOSS else DEFAULT_LOSS
        return asked / 2, asked, 2.5 * asked

    def __str__(self) -> str:
        """Return the target in words."""
        if self.goal is Goal.RATE:
            return f"at least {self.limit:g} frames per second"
        if self.goal is Goal.LATENCY:
            return f"at most {self.limit:g} ms for a computed frame"
        if self.goal is Goal.POWER:
            return f"at most {self.limit:g} W, by the power model"
        return f"a loss of at most {self.limit:g}"
