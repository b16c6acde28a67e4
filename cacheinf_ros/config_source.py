# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Read declared parameters from the source of configurations: importing these loads torch, which takes seconds."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parent
_DECLARE = ("parameter", "unlisted")  # functions of config.py


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredParameter:
    """A parameter as :func:`cacheinf_ros.config.parameter` declares it.

    Attributes:
        name: name of the ROS parameter.
        type: type of the field, as the source has it.
        default: default as text; for an enum the member's value, which is its name in lower case.
    """

    name: str
    type: str
    description: str
    default: str


@cache
def declared_parameters(file: str, config: str) -> dict[str, DeclaredParameter]:
    """Return the parameters that a configuration class itself declares, by name.

    Args:
        file: path of the file that defines the class, relative to the package.
        config: name of the class.
    """
    tree = ast.parse((_PACKAGE / file).read_text(encoding="utf-8"))
    (body,) = (node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == config)
    assigned = {ast.unparse(line.targets[0]): line.value for line in body if isinstance(line, ast.Assign)}
    group = ast.literal_eval(assigned["group"]) if "group" in assigned else ""
    found = [_declared(line, group) for line in body if isinstance(line, ast.AnnAssign)]
    return {each.name: each for each in found if each is not None}


def _declared(line: ast.AnnAssign, group: str) -> DeclaredParameter | None:
    call, field = line.value, ast.unparse(line.target)
    if not isinstance(call, ast.Call) or ast.unparse(call.func) not in _DECLARE:
        return None
    default, description = call.args
    named = [ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg == "name"]
    return DeclaredParameter(
        name=named[0] if named else f"{group}.{field}" if group else field,
        type=ast.unparse(line.annotation),
        description=ast.literal_eval(description),
        default=_text(default),
    )


def _text(default: ast.expr) -> str:
    if isinstance(default, ast.Attribute):  # an enum member, or math.inf
        return default.attr.lower()
    value = ast.literal_eval(default)
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
