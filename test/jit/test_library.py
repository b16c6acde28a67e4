# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Compiled kernels in libraries equal the functions they come from, are built once, and may fail to build."""

from __future__ import annotations

import importlib
import logging
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numba.core.caching import CacheImpl

from cacheinf_ros.jit import compiled, library
from cacheinf_ros.jit.library_kernel import LibraryKernel
from cacheinf_ros.jit.places import find_library, new_library

LOOPS = """
from cacheinf_ros.jit import BYTES, FLOAT, IMAGES, INT, kernel

@kernel()
def _larger(a, b):
    return a if a > b else b

@kernel(IMAGES, INT, FLOAT, BYTES, returns=FLOAT)
def largest(images, offset, factor, out):
    total = 0.0
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = _larger(images[0][i, j], images[1][i, j]) + offset
            total += factor * out[i, j]
    return total
"""
ALLOCATES = """
import numpy as np
from cacheinf_ros.jit import INT, kernel

@kernel(INT, returns=INT)
def squares(count):
    values = np.arange(count)
    return (values * values).sum()
"""
Load = Callable[[str], ModuleType]

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="needs a C compiler to link"
)


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Return a function that imports a source text as a new module."""
    monkeypatch.syspath_prepend(tmp_path)
    library._warn_once.cache_clear()
    names = iter(f"loops_{tmp_path.name}_{i}" for i in range(10))

    def load(source: str) -> ModuleType:
        name = next(names)
        (tmp_path / f"{name}.py").write_text(source)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    return load


def pictures() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 250, (2, 5, 7), np.uint8)
    first.flags.writeable = False
    return first, second


@needs_compiler
def test_a_kernel_equals_its_function(load: Load) -> None:
    largest = load(LOOPS).largest
    assert isinstance(largest, LibraryKernel)
    got, expected = np.zeros((5, 7), np.uint8), np.zeros((5, 7), np.uint8)
    total = largest(pictures(), np.int64(3), 0.5, got)
    assert total == largest.__wrapped__(pictures(), 3, 0.5, expected)
    assert np.array_equal(got, expected)


@needs_compiler
def test_a_kernel_refuses_what_it_was_not_compiled_for(load: Load) -> None:
    largest, out = load(LOOPS).largest, np.zeros((5, 7), np.uint8)
    read_only = out.copy()
    read_only.flags.writeable = False
    for unusable in (out.astype(np.int8), out[0], out.T, out[:, ::2], read_only, out.tolist()):
        with pytest.raises(TypeError, match="uint8"):
            largest(pictures(), 3, 0.5, unusable)
    with pytest.raises(ValueError, match="argument"):
        largest(pictures(), 3, 0.5)
    with pytest.raises(ValueError, match="argument"):
        largest(pictures()[:1], 3, 0.5, out)


@needs_compiler
def test_a_library_is_built_once_and_loaded_without_numba(load: Load) -> None:
    module = load(LOOPS)
    source = Path(str(module.__file__))
    library = find_library(source)
    assert library is not None
    built_ns = library.stat().st_mtime_ns
    script = f"import sys; sys.path.insert(0, {str(source.parent)!r}); import {module.__name__}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert module.__name__ in loaded
    assert not {"numba", "llvmlite"} & set(loaded)
    assert library.stat().st_mtime_ns == built_ns
    source.write_text(LOOPS.replace("+ offset", "- offset"))
    assert find_library(source) is None  # it holds what the file was
    subprocess.run([sys.executable, "-c", script], check=True)
    assert find_library(source) is not None
    assert not library.exists()


@pytest.mark.parametrize(("source", "reason"), [(LOOPS, "link"), (ALLOCATES, "squares allocates")])
def test_what_cannot_be_in_a_library_is_compiled_here(
    load: Load, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, source: str, reason: str
) -> None:
    if source == LOOPS:
        monkeypatch.setenv("PATH", "/nonexistent")
        monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(logging.getLogger("cacheinf_ros.jit.library"), "disabled", False)  # import-linter disables it
    with caplog.at_level(logging.WARNING):
        module = load(source)
    assert reason in caplog.text
    if source == LOOPS:
        out = np.zeros((5, 7), np.uint8)
        module.largest(pictures(), 3, 0.5, out)
        assert np.array_equal(out, np.maximum(*pictures()) + 3)
    else:
        assert module.squares(4) == 14


def test_without_a_compiler_no_process_is_started_and_one_warning_names_the_remedy(
    load: Load, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(logging.getLogger("cacheinf_ros.jit.library"), "disabled", False)  # import-linter disables it
    started: list[object] = []
    monkeypatch.setattr(subprocess, "run", lambda *command, **_: started.append(command))
    with caplog.at_level(logging.WARNING):
        load(LOOPS)
        load(LOOPS.replace("+ offset", "- offset"))
    assert not started
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "g++" in warning


def test_where_numba_can_keep_nothing_its_functions_are_compiled_anew(
    load: Load, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As where neither the package nor the user's cache can be written to, which root always can."""
    monkeypatch.setenv("CACHEINF_KERNELS", "process")
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])
    monkeypatch.setattr(logging.getLogger("cacheinf_ros.jit.compiled"), "disabled", False)  # import-linter disables it
    compiled._warn_of_no_cache.cache_clear()
    out = np.zeros((5, 7), np.uint8)
    with caplog.at_level(logging.WARNING):
        load(LOOPS).largest(pictures(), 3, 0.5, out)
    assert np.array_equal(out, np.maximum(*pictures()) + 3)
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "compiled anew at every start" in warning and "XDG_CACHE_HOME" in warning


def test_where_no_library_can_be_written_no_process_is_started(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "__pycache__").write_text("in the way")
    (tmp_path / "cache").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(logging.getLogger("cacheinf_ros.jit.library"), "disabled", False)  # import-linter disables it
    started: list[object] = []
    monkeypatch.setattr(subprocess, "run", lambda *command, **_: started.append(command))
    with caplog.at_level(logging.WARNING):
        load(LOOPS)
    assert not started
    assert "XDG_CACHE_HOME" in caplog.text


def test_where_nothing_can_be_written_the_users_cache_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "loops.py").write_text(LOOPS)
    assert new_library(tmp_path / "loops.py").parent == tmp_path / "__pycache__"
    (tmp_path / "__pycache__").rmdir()
    (tmp_path / "__pycache__").write_text("in the way")
    assert new_library(tmp_path / "loops.py").parent == tmp_path / "cache" / "cacheinf_ros" / "kernels"
