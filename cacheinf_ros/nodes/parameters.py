# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""ROS parameters declared from the configurations of the parts, so that defaults and ranges are written only there."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

from pydantic.fields import FieldInfo
from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.exceptions import InvalidParameterValueException
from rclpy.node import Node
from rclpy.parameter import Parameter

from cacheinf_ros.config import C, Config, Declaration
from cacheinf_ros.errors import ConfigError, quoted
from cacheinf_ros.parameter_names import KNOWN, RENAMED, meant_by, what_became_of

_INT_MAX = 2**63 - 1
_QOS = "qos_overrides."  # may be for topics of other nodes, since all nodes are given one file


class Parameters:
    """The configurations of one node, kept up to date while its live parameters change.

    :meth:`get` may be called from any thread: configurations are immutable and replaced as a whole.
    """

    def __init__(self, node: Node, *classes: type[Config]) -> None:
        """Declare the fields of ``classes``; raises :class:`ConfigError` where the user gave an unusable value."""
        self._classes = classes
        self._declarations = {each.name: each for cls in classes for each in cls.declarations()}
        given = _by_their_names_now(node, self._declarations)
        self._values = {name: _value(each, given.get(name)) for name, each in self._declarations.items()}
        self._configs = self._checked(self._values)
        # in the order in which rqt lists them: what can be tuned comes first
        for each in sorted(self._declarations.values(), key=lambda each: not each.live):
            if self._is_in_use(each.name) and (each.listed or each.name in given):
                _declare(node, each, self._values[each.name])
        node.add_pre_set_parameters_callback(self._whole_numbers_as_floats)
        node.add_on_set_parameters_callback(self._validate)
        node.add_post_set_parameters_callback(self._apply)

    def get(self, cls: type[C]) -> C:
        """Return the current configuration of a class; it stays the same object until a value of it changes."""
        config = self._configs[cls]
        assert isinstance(config, cls)
        return config

    def why_not(self, name: str) -> str:
        """Return why a parameter of this name cannot be set now, and what to do."""
        if not self._is_in_use(name):
            return f"{name} has no effect here: start the node with {_switch(name)}: true"
        if name in self._declarations:
            return f"{name} is set when the node starts, with -p or in a YAML file"
        return what_became_of(name) or f"there is no parameter {quoted(name)}{meant_by(name, self._declarations)}"

    def _is_in_use(self, name: str) -> bool:
        """Tell whether a parameter's group is in use: parameters about a server are not, where a node uses none."""
        return name == _switch(name) or bool(self._values.get(_switch(name), True))

    def _whole_numbers_as_floats(self, parameters: list[Parameter[Any]]) -> list[Parameter[Any]]:
        """Convert integers that are given for floats.

        ``ros2 param set`` makes 5 an integer, which rclpy refuses for a float without saying what it would accept.
        """
        return [
            p
            if p.name not in self._values
            else _as_floats(p, Parameter.Type.from_parameter_value(self._values[p.name]))
            for p in parameters
        ]

    def _validate(self, parameters: list[Parameter[Any]]) -> SetParametersResult:
        return verdict(lambda: self._checked(self._merged(parameters)))

    def _apply(self, parameters: list[Parameter[Any]]) -> None:
        self._values = self._merged(parameters)
        new = self._checked(self._values)
        self._configs = {cls: old if (old := self._configs[cls]) == new[cls] else new[cls] for cls in new}

    def _merged(self, parameters: list[Parameter[Any]]) -> dict[str, Any]:
        return self._values | {p.name: p.value for p in parameters if p.name in self._values}

    def _checked(self, values: dict[str, Any]) -> dict[type[Config], Config]:
        return {
            cls: cls.checked(**{each.field: values[each.name] for each in cls.declarations()}) for cls in self._classes
        }


def verdict(check: Callable[[], object]) -> SetParametersResult:
    """Check new values; where that raises :class:`ConfigError`, they are refused with its message as the reason."""
    try:
        check()
    except ConfigError as error:
        return SetParametersResult(successful=False, reason=str(error))
    return SetParametersResult(successful=True)


def given_parameters(node: Node) -> Mapping[str, Parameter[Any]]:
    """Return what the user gave in files, on the command line or to the constructor, declared or not."""
    given: dict[str, Parameter[Any]] = node._parameter_overrides  # rclpy has no public API that knows all three
    return given


def current_name(parameter: Parameter[Any]) -> Parameter[Any]:
    """Return the parameter under its current name."""
    return Parameter(RENAMED[parameter.name], value=parameter.value) if parameter.name in RENAMED else parameter


def describe(declaration: Declaration) -> ParameterDescriptor:
    """Return the descriptor of a field.

    Floats get step 0: rclpy rejects values off the step, and rqt's slider has only 100 positions.
    """
    field = declaration.info
    descriptor = ParameterDescriptor(description=field.description or "", read_only=not declaration.live)
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


def _by_their_names_now(node: Node, own: Iterable[str]) -> dict[str, Parameter[Any]]:
    """Return what the user gave, by current name, and log which names have changed or never existed.

    Args:
        node: the node that has been given parameters.
        own: names of the node's parameters; the same file may hold those of our other nodes.
    """
    given = given_parameters(node)
    known = KNOWN | set(own)
    strange = [name for name in given if not (name in known or name.startswith(_QOS) or node.has_parameter(name))]
    if strange:
        told = [what_became_of(name) or f"{name!r} is unknown{meant_by(name, known)}" for name in strange]
        node.get_logger().warning(f"parameters: {'; '.join(told)}")
    renamed = {now.name: now for now in map(current_name, given.values())}
    return {**renamed, **given}  # where both were given, the current name wins


def _switch(name: str) -> str:
    """Return the name of the parameter that switches the group of this parameter on, whether or not there is one."""
    return f"{name.partition('.')[0]}.use"


def _value(declaration: Declaration, given: Parameter[Any] | None) -> Any:
    """Return the default, or what was given if its type is right; whole numbers are accepted for floats."""
    default = declaration.info.default
    default = default.value if isinstance(default, Enum) else default
    if given is None:
        return default
    wanted = Parameter.Type.from_parameter_value(default)
    given = _as_floats(given, wanted)
    if given.type_ is not wanted:
        kind = wanted.name.lower().replace("_", " ")
        example = declaration.example or (str(given.value) if default == "" else default)
        example = example if wanted is Parameter.Type.DOUBLE_ARRAY else repr(example)
        raise ConfigError(f"parameter {given.name}: {given.value!r} is no {kind}: give one, for example {example}")
    return given.value


def _as_floats(given: Parameter[Any], wanted: Parameter.Type) -> Parameter[Any]:
    """Convert a whole number, or an array of them, where floats are wanted; anything else stays as it is."""
    if (given.type_, wanted) == (Parameter.Type.INTEGER, Parameter.Type.DOUBLE):
        return Parameter(given.name, value=float(given.value))
    if (given.type_, wanted) == (Parameter.Type.INTEGER_ARRAY, Parameter.Type.DOUBLE_ARRAY):
        return Parameter(given.name, value=[float(each) for each in given.value])
    return given


def _declare(node: Node, declaration: Declaration, value: Any) -> None:
    try:
        node.declare_parameter(declaration.name, value, describe(declaration), ignore_override=True)
    except InvalidParameterValueException as error:
        raise ConfigError(f"parameter {declaration.name}: {error}") from None


def _bound(field: FieldInfo, name: str) -> float | None:
    return next((getattr(m, name) for m in field.metadata if getattr(m, name, None) is not None), None)
