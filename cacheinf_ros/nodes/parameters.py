# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""ROS parameters declared from the parts' configurations, so that defaults and ranges are written only there."""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import Enum
from typing import Any

from pydantic.fields import FieldInfo
from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.node import Node
from rclpy.parameter import Parameter

from cacheinf_ros.config import C, Config
from cacheinf_ros.errors import ConfigError

_INT_MAX = 2**63 - 1


class Parameters:
    """The configurations of one node, kept up to date while its live parameters change.

    :meth:`get` may be called from any thread: configurations are immutable and replaced as a whole.
    """

    def __init__(self, node: Node, *classes: type[Config]) -> None:
        """Declare the fields of ``classes``; :class:`ConfigError` where the user gave an unusable value."""
        self._classes = classes
        self._values: dict[str, Any] = {}
        # in the order in which rqt lists them: what can be tuned comes first
        for name, field in sorted(_fields(classes), key=lambda each: not _is_live(each[1])):
            self._values[name] = _declare(node, name, field)
        self._configs = self._checked(self._values)
        self._is_float = {name for name, field in _fields(classes) if _takes_float(field)}
        node.add_pre_set_parameters_callback(self._whole_numbers_as_floats)
        node.add_on_set_parameters_callback(self._validate)
        node.add_post_set_parameters_callback(self._apply)

    def get(self, cls: type[C]) -> C:
        """The current configuration of this class; the same object until a value of it changes."""
        config = self._configs[cls]
        assert isinstance(config, cls)
        return config

    def _whole_numbers_as_floats(self, parameters: list[Parameter[Any]]) -> list[Parameter[Any]]:
        """``ros2 param set`` makes 5 an integer, which rclpy refuses for a float without saying what would do."""
        return [
            Parameter(p.name, value=float(p.value))
            if p.name in self._is_float and p.type_ is Parameter.Type.INTEGER
            else p
            for p in parameters
        ]

    def _validate(self, parameters: list[Parameter[Any]]) -> SetParametersResult:
        try:
            self._checked(self._merged(parameters))
        except ConfigError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _apply(self, parameters: list[Parameter[Any]]) -> None:
        self._values = self._merged(parameters)
        new = self._checked(self._values)
        self._configs = {cls: old if (old := self._configs[cls]) == new[cls] else new[cls] for cls in new}

    def _merged(self, parameters: list[Parameter[Any]]) -> dict[str, Any]:
        return self._values | {p.name: p.value for p in parameters if p.name in self._values}

    def _checked(self, values: dict[str, Any]) -> dict[type[Config], Config]:
        return {cls: cls.checked(**{name: values[name] for name in cls.model_fields}) for cls in self._classes}


def describe(field: FieldInfo) -> ParameterDescriptor:
    """The descriptor of a field declared with :func:`cacheinf_ros.config.parameter`.

    Floats get step 0: rclpy rejects values off the step, and rqt's slider has only 100 positions.
    """
    descriptor = ParameterDescriptor(description=field.description or "", read_only=not _is_live(field))
    low, high = _bound(field, "ge"), _bound(field, "le")
    if isinstance(field.default, Enum):
        descriptor.additional_constraints = "one of: " + ", ".join(str(choice.value) for choice in type(field.default))
    elif isinstance(field.default, bool) or (low is None and high is None):
        pass
    elif isinstance(field.default, int):
        highest = _INT_MAX if high is None else int(high)
        descriptor.integer_range = [IntegerRange(from_value=int(low or 0), to_value=highest, step=0)]
    elif isinstance(field.default, float):
        to_value = math.inf if high is None else float(high)
        descriptor.floating_point_range = [FloatingPointRange(from_value=float(low or 0), to_value=to_value, step=0.0)]
    return descriptor


def _fields(classes: tuple[type[Config], ...]) -> Iterator[tuple[str, FieldInfo]]:
    for cls in classes:
        yield from cls.model_fields.items()


def _declare(node: Node, name: str, field: FieldInfo) -> Any:
    default = field.default.value if isinstance(field.default, Enum) else field.default
    try:
        if _takes_float(field):
            return _declare_float(node, name, default, describe(field))
        return node.declare_parameter(name, default, describe(field)).value
    except InvalidParameterTypeException as error:
        hint = f", for example {default!r}"
        raise ConfigError(f"parameter {name}: {error}; give a {type(default).__name__}{hint}") from None
    except InvalidParameterValueException as error:
        raise ConfigError(f"parameter {name}: {error}") from None


def _declare_float(node: Node, name: str, default: float, descriptor: ParameterDescriptor) -> float:
    """Declare a float that a file or the command line may give as a whole number."""
    given = node.declare_parameter(name, default, ParameterDescriptor(dynamic_typing=True)).value
    node.undeclare_parameter(name)
    if isinstance(given, int) and not isinstance(given, bool):
        return float(node.declare_parameter(name, float(given), descriptor, ignore_override=True).value)
    return float(node.declare_parameter(name, default, descriptor).value)


def _takes_float(field: FieldInfo) -> bool:
    return isinstance(field.default, float)


def _is_live(field: FieldInfo) -> bool:
    extra = field.json_schema_extra
    return isinstance(extra, dict) and bool(extra.get("live"))


def _bound(field: FieldInfo, name: str) -> float | None:
    return next((getattr(m, name) for m in field.metadata if getattr(m, name, None) is not None), None)
