# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The base of all configurations: validated, immutable, with a description of each parameter.

A part declares its parameters once, as a :class:`Config` with :func:`parameter` fields. ROS parameters and
command-line options are declared from these fields, so that a default, a range or a description is
written in one place only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar, Protocol, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic.fields import FieldInfo

from cacheinf_ros.errors import ConfigError, quoted

Value = bool | int | float | str | Sequence[str] | Sequence[float]
"""The types that a node's parameter may have."""
_LONGEST_INPUT = 200  # characters that an error quotes: enough for a path, not for the content of a file


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """How a field is declared as a ROS parameter.

    Attributes:
        field: name of the field.
        name: name of the ROS parameter; the part before its dot is its group.
        info: default, range and description of the field.
        live: whether the value may change while the node runs.
        listed: whether every node that has the parameter declares it; otherwise only a node that was given it at its
            start does.
        example: a value that errors show where the default is empty; may be empty itself.
    """

    field: str
    name: str
    info: FieldInfo
    live: bool
    listed: bool
    example: str = ""


class Config(BaseModel):
    """Base class for the configuration of one part of the package: immutable, and unknown names are refused.

    Attributes:
        group: group of its parameters, which are then named GROUP.FIELD; empty: no group.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=False)
    group: ClassVar[str] = ""

    @classmethod
    def checked(cls, /, **values: Any) -> Self:
        """Build the configuration, or raise :class:`ConfigError` naming each bad value and its remedy."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise ConfigError("; ".join(_complaints(cls, error))) from None

    @classmethod
    @cache
    def declarations(cls) -> tuple[Declaration, ...]:
        """Return how the fields, apart from settings, are declared as ROS parameters, in the order of definition."""
        return tuple(
            _declaration(cls, field, info) for field, info in cls.model_fields.items() if not _is_setting(info)
        )

    def changed(self, **values: Any) -> Self:
        """Return a copy with some values replaced, checked like a new one."""
        return self.checked(**{**self.model_dump(), **values})


C = TypeVar("C", bound=Config)


class CurrentConfigs(Protocol):
    """The configurations of something that runs, kept up to date while its parameters change."""

    def get(self, cls: type[C]) -> C:
        """Return the current configuration of this class; the same object until one of its values changes."""
        ...


def parameter(
    default: Any,
    description: str,
    *,
    low: float | None = None,
    high: float | None = None,
    live: bool = False,
    name: str = "",
    listed: bool = True,
    example: str = "",
) -> Any:
    """Declare a field of a :class:`Config`.

    Args:
        default: value where the user says nothing.
        description: one sentence, with the unit.
        low, high: inclusive range of a number.
        live: whether the value may change while the node runs.
        name: name of the ROS parameter; empty: the name of the field, in the group of its class.
        listed: whether every node that has the parameter declares it; otherwise only a node that was given it at its
            start does.
        example: a value that errors show where the default is empty.
    """
    extra: dict[str, JsonValue] = {"live": live, "name": name, "listed": listed, "example": example}
    return Field(default, description=description, ge=low, le=high, json_schema_extra=extra)


def setting(default: Any, description: str, *, low: float | None = None, high: float | None = None) -> Any:
    """Declare a field that is no parameter or option: nodes run with its default, experiments set it in Python."""
    return Field(default, description=description, ge=low, le=high, json_schema_extra={"is_parameter": False})


unlisted = partial(parameter, listed=False)
"""Declare a parameter that hardly anybody needs: ``ros2 param list`` shows it only where it was given."""


def parse_size(text: str | None) -> tuple[int, int] | None:
    """Read a size, height first: "480x640" -> (480, 640); nothing -> None.

    Raises:
        ConfigError: the text is not HEIGHTxWIDTH in positive whole numbers.
    """
    if not text:
        return None
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ConfigError(f"size {text!r}: expected HEIGHTxWIDTH in pixels, for example 480x640")
    return int(parts[0]), int(parts[1])


def expanded(path: str) -> str:
    """Return a path with the user's home folder in place of ``~``, where no shell has replaced it."""
    return os.path.expanduser(path) if path.startswith("~/") else path


def _is_setting(info: FieldInfo) -> bool:
    return isinstance(info.json_schema_extra, dict) and info.json_schema_extra.get("is_parameter") is False


def _declaration(cls: type[Config], field: str, info: FieldInfo) -> Declaration:
    extra: Any = info.json_schema_extra or {}
    name = extra.get("name") or (f"{cls.group}.{field}" if cls.group else field)
    return Declaration(
        field=field,
        name=name,
        info=info,
        live=extra.get("live", False),
        listed=extra.get("listed", True),
        example=extra.get("example", ""),
    )


def _sentence(message: str) -> str:
    """Return pydantic's message in lower case, but that of one of our validators as it was written."""
    own = message.removeprefix("Value error, ")
    return message.lower() if own == message else own


def _complaints(cls: type[Config], error: ValidationError) -> list[str]:
    names = {each.field: each.name for each in cls.declarations()}
    places = [".".join(names.get(str(part), str(part)) for part in e["loc"]) for e in error.errors()]
    return [
        f"{place or cls.__name__} = {quoted(e['input'], _LONGEST_INPUT)}: {_sentence(e['msg'])}"
        for place, e in zip(places, error.errors(), strict=True)
    ]
