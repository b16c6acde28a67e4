# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of which kernels are chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from cacheinf_ros.engine import Precision
from cacheinf_ros.engine.backends import NativeBackend, choose_backend
from cacheinf_ros.engine.kernels.abi import KernelKind
from cacheinf_ros.engine.kernels.kernel_library import kernel_library, load_library
from cacheinf_ros.errors import EngineError


def test_compiled_kernels_are_built() -> None:
    assert kernel_library() is not None, "run `make build`: it compiles the kernels"
    kernels = choose_backend("cpu", 2)
    assert isinstance(kernels, NativeBackend)
    assert "2 threads" in kernels.name


def test_kernels_are_numbered_as_in_the_library() -> None:
    assert [kind.value for kind in KernelKind] == list(range(len(KernelKind)))


def test_unknown_device_is_named() -> None:
    with pytest.raises(EngineError, match="device 'warp9' cannot be used"):
        choose_backend("warp9", 1)


def test_float16_is_for_a_gpu() -> None:
    with pytest.raises(EngineError, match="precision float16 needs device cuda, not 'cpu': set device to cuda, or"):
        choose_backend("cpu", 1, Precision.FLOAT16)


def test_kernels_of_another_machine_are_named(tmp_path: Path) -> None:
    (tmp_path / "kernels.so").write_bytes(b"\x7fELF of another processor")
    with pytest.raises(EngineError, match=r"kernels.so.*build the package on this machine"):
        load_library(tmp_path / "kernels.so")
