# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The kernels compiled for aarch64, and the processors that qemu emulates."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
INSTRUCTION_SETS = {"cortex-a72": b"base", "cortex-a76": b"dotprod", "max": b"i8mm"}
"""The instruction set that the kernels use on each processor, by qemu's name for it."""

_FOLDER = ROOT / "build" / "aarch64"
_LIBRARY, _SERVER = _FOLDER / "libcacheinf_kernels.so", _FOLDER / "serve_calls"
_COMPILER, _EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
_SYSTEM = "/usr/aarch64-linux-gnu"  # where Debian and Ubuntu have the libraries of the cross compiler
_TOOLS = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"


def missing() -> str | None:
    """Return what this machine lacks to run them, or None."""
    for tool in (_COMPILER, _EMULATOR, "cmake", "ninja"):
        if shutil.which(tool, path=_TOOLS) is None:
            return f"no {tool} here (apt-get install g++-aarch64-linux-gnu qemu-user)"
    return None if Path(_SYSTEM).is_dir() else f"no {_SYSTEM} here"


def build() -> Path:
    """Compile what has changed, which takes a minute the first time, and return the library."""
    options = {
        "CACHEINF_MESSAGES": "OFF",
        "CMAKE_SYSTEM_NAME": "Linux",
        "CMAKE_SYSTEM_PROCESSOR": "aarch64",
        "CMAKE_C_COMPILER": _COMPILER.replace("g++", "gcc"),
        "CMAKE_CXX_COMPILER": _COMPILER,
        "CMAKE_CXX_FLAGS": "-Wall -Wextra",
        "CMAKE_MAKE_PROGRAM": shutil.which("ninja", path=_TOOLS),
    }
    cmake = shutil.which("cmake", path=_TOOLS)
    definitions = [f"-D{name}={value}" for name, value in options.items()]
    source = Path(__file__).parent / "serve_calls.cpp"
    server = ["-std=c++17", "-O3", "-Wall", "-Wextra", "-rdynamic", "-o", _SERVER, source, "-ldl"]
    for command in (
        [cmake, "-S", ROOT, "-B", _FOLDER, "-G", "Ninja", *definitions],
        [cmake, "--build", _FOLDER, "--parallel", "1"],
        [_COMPILER, *server],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"the kernels were not compiled for aarch64:\n{done.stdout}\n{done.stderr}")
    return _LIBRARY


def command(processor: str) -> list[str]:
    """Return the command that starts ``serve_calls`` on an emulated processor; the library's path is to be added."""
    return [_EMULATOR, "-cpu", processor, "-L", _SYSTEM, str(_SERVER)]


def environment(processor: str) -> dict[str, str]:
    """Return the environment in which tests use the kernels on an emulated processor: see ``conftest.py``."""
    return {"CACHEINF_KERNEL_LIBRARY": str(_LIBRARY), "CACHEINF_KERNEL_EMULATOR": " ".join(command(processor))}
