# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What every part's configuration has in common: validated, frozen, described.

A part declares its parameters once, as a :class:`Config` with :func:`parameter` fields. ROS parameters and
command-line options are declared from these fields, so that a default, a range or a description is
written in one place only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cacheinf_ros.errors import ConfigError

Value = bool | int | float | str | Sequence[str] | Sequence[float]
"""What a parameter of a node may be."""


class Config(BaseModel):
    """Base of the configuration of one part: immutable, unknown names refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=False)

    @classmethod
    def checked(cls, **values: Any) -> Self:
        """Build the configuration, or raise :class:`ConfigError` naming each bad value and its remedy."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise ConfigError("; ".join(_complaints(cls, error))) from None

    def changed(self, **values: Any) -> Self:
        """A copy with some values replaced, checked like a new one."""
        return self.checked(**{**self.model_dump(), **values})


C = TypeVar("C", bound=Config)


class CurrentConfigs(Protocol):
    """The configurations of something that runs, kept up to date while its parameters change."""

    def get(self, cls: type[C]) -> C:
        """The current configuration of this class; the same object until a value of it changes."""
        ...


def parameter(
    default: Any, description: str, *, low: float | None = None, high: float | None = None, live: bool = False
) -> Any:
    """Declare a field of a :class:`Config`.

    Args:
        default: value where the user says nothing.
        description: one sentence, with the unit.
        low, high: inclusive range of a number.
        live: whether the value may change while the node runs.
    """
    return Field(default, description=description, ge=low, le=high, json_schema_extra={"live": live})


def parse_size(text: str | None) -> tuple[int, int] | None:
    """Read a size, height first: "480x640" -> (480, 640); nothing -> None.

    Raises:
        ConfigError: it does not look like that.
    """
    if not text:
        return None
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise ConfigError(f"size {text!r}: expected HEIGHTxWIDTH in pixels, for example 480x640")
    return int(parts[0]), int(parts[1])


def _complaints(cls: type[Config], error: ValidationError) -> list[str]:
    return [
        f"{'.'.join(map(str, e['loc'])) or cls.__name__} = {e['input']!r}: {e['msg'].lower()}" for e in error.errors()
    ]
