# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Both sides of the C interface agree; where they do not, loading says so."""

from __future__ import annotations

import ast
import ctypes
from pathlib import Path
from typing import Any

import pytest

import cacheinf_ros.cache_map
from cacheinf_ros.engine.kernels import abi
from cacheinf_ros.engine.kernels.kernel_library import kernel_library, load_library
from cacheinf_ros.errors import EngineError


class Longer(ctypes.Structure):
    """The ``ci_set`` of another version, which has one more field."""

    _fields_ = [*abi.CSet._fields_, ("more", ctypes.c_int32)]


class Swapped(ctypes.Structure):
    """The ``ci_shift`` of another version, in which two fields of one type have changed places."""

    _fields_ = [
        (dict(dx="dy", dy="dx").get(name, name), kind) for name, kind in abi.CShift._fields_  # type: ignore[misc]
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "structure"), [("ci_set", Longer), ("ci_shift", Swapped)])
def test_a_structure_of_another_version_is_named(
    name: str, structure: type[ctypes.Structure], monkeypatch: pytest.MonkeyPatch
) -> None:
    library = kernel_library()
    assert library is not None, "run `make build`: it compiles the kernels"
    abi.declare(library)
    monkeypatch.setitem(abi._STRUCTURES, name, structure)
    with pytest.raises(EngineError, match=f"another version: make build.*{name}"):
        abi.declare(library)


def test_a_constant_of_another_version_is_named() -> None:
    library: Any = kernel_library()
    ours = dict(abi._layout())
    abi.check(library, ours)
    with pytest.raises(EngineError, match="CI_COMPUTE"):
        abi.check(library, {**ours, "CI_COMPUTE": 99})
    with pytest.raises(EngineError, match="CI_NEW"):
        abi.check(library, {**ours, "CI_NEW": 1})


def test_a_library_without_the_functions_is_of_another_version() -> None:
    for path in Path("/proc/self/maps").read_text().split():
        if "/libm.so" in path or "/libm-" in path:
            with pytest.raises(EngineError, match="another version: make build"):
                load_library(Path(path))
            return
    pytest.skip("no other library is at hand")


def test_what_a_function_returns_is_never_thrown_away() -> None:
    """Most functions return a status; a caller that ignores it goes on with wrong values."""
    for file in Path(cacheinf_ros.cache_map.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                called = node.value.func
                name = called.attr if isinstance(called, ast.Attribute) else ""
                assert abi._FUNCTIONS.get(name, (None,))[0] is None, f"{file}:{node.lineno} ignores what {name} returns"


@pytest.mark.parametrize(("status", "said"), [(abi.Status.NO_MEMORY, "smaller model"), (abi.Status.NONSENSE, "a bug")])
def test_a_failure_names_the_function_and_the_remedy(status: int, said: str) -> None:
    assert str(abi.failure("ci_paint_input", status)).startswith("ci_paint_input")
    assert said in str(abi.failure("ci_paint_input", status))
