# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the user wants of a way to answer a camera's frames."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.errors import ConfigError

DEFAULT_LOSS: float = EngineConfig().max_loss


class Goal(Enum):
    """What a target limits, and the unit of its number."""

    RATE = "fps"
    """Frames per second, at least: one after another they must not take longer."""
    LATENCY = "ms"
    """Milliseconds of a frame, at most, in 95 of 100 that are computed."""
    POWER = "W"
    """Watts of the robot's computer, at most, by the power model."""
    LOSS = "loss"
    """Loss against dense execution, at most, as ``max_loss``."""


_NUMBER = r"([\d.]+(?:e[+-]?\d+)?)"
_FORMS = {
    Goal.RATE: re.compile(rf"{_NUMBER} ?(?:fps|hz)", re.IGNORECASE),
    Goal.LATENCY: re.compile(rf"latency={_NUMBER} ?ms", re.IGNORECASE),
    Goal.POWER: re.compile(rf"{_NUMBER} ?w", re.IGNORECASE),
    Goal.LOSS: re.compile(rf"loss={_NUMBER}", re.IGNORECASE),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A limit, by default on the loss; within others the user wants the least loss, within this one the least time."""

    goal: Goal = Goal.LOSS
    limit: float = DEFAULT_LOSS

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read "15fps", "latency=50ms", "8W" or "loss=0.02"; empty: the default.

        Raises:
            ConfigError: it does not look like that, or the number makes no sense.
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
        """The values of ``max_loss`` that are tried: half of what is asked, that, and more."""
        asked = min(self.limit, 0.16) if self.goal is Goal.LOSS else DEFAULT_LOSS
        return asked / 2, asked, 2.5 * asked

    def __str__(self) -> str:
        """In words."""
        if self.goal is Goal.RATE:
            return f"at least {self.limit:g} frames per second"
        if self.goal is Goal.LATENCY:
            return f"at most {self.limit:g} ms for a computed frame"
        if self.goal is Goal.POWER:
            return f"at most {self.limit:g} W, by the power model"
        return f"a loss of at most {self.limit:g}"
