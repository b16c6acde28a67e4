# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Lets pip build what colcon builds: runs the same CMakeLists.txt and puts its results into the wheel.

Nothing it builds is required: without rosidl there are no messages, without a compiler no fast kernels.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

from setuptools import Distribution, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent.resolve()
PACKAGE = "cacheinf_ros"


class NativeDistribution(Distribution):
    """Is never pure: build_ext always runs, and the wheel is for one platform."""

    def has_ext_modules(self) -> bool:
        """True: setuptools does not know of what CMake builds."""
        return True


class BuildWithCMake(build_ext):
    """Messages and kernels, where this machine can build them."""

    def run(self) -> None:
        """Build into a staging folder, then hand its files to setuptools."""
        if not any(shutil.which(name) for name in (os.environ.get("CXX", "c++"), "c++", "g++", "clang++")):
            say("no C++ compiler found: no messages are built, and the slower kernels in torch will be used")
            return
        prefixes = ros_prefixes()
        missing = missing_for_messages(prefixes)
        if missing:
            say(f"{missing}: messages are not built")
        self.take(cmake_install(self.build_folder(), prefixes, messages=missing is None))

    def build_folder(self) -> Path:
        """Kept for the next time where the tree is in use (editable), else new."""
        if self.inplace or self.editable_mode:
            return ROOT / "build" / "editable"
        shutil.rmtree(self.build_temp, ignore_errors=True)
        return Path(self.build_temp).resolve()

    def take(self, stage: Path) -> None:
        """Python files go into the package (for an editable install: the source tree), others into the prefix."""
        built = next(stage.glob(f"**/{PACKAGE}/engine/kernels")).parents[1]
        target = ROOT / PACKAGE if self.inplace or self.editable_mode else Path(self.build_lib) / PACKAGE
        shutil.rmtree(target / "msg", ignore_errors=True)  # messages that are no longer there
        for file in [*built.rglob("*.so"), *built.glob("msg/*.py")]:
            replace(file, target / file.relative_to(built))
        self.distribution.data_files = prefix_files(stage, built.parent)
        if self.inplace or self.editable_mode:  # setuptools leaves data files out of editable installs
            shutil.rmtree(Path(sys.prefix) / "share" / PACKAGE / "msg", ignore_errors=True)
            for folder, files in self.distribution.data_files:
                for file in files:
                    replace(Path(file), Path(sys.prefix) / folder / Path(file).name)


def prefix_files(stage: Path, python_folder: Path) -> list[tuple[str, list[str]]]:
    """Libraries, ament index, launch files, executables; pip makes bin/cacheinf itself."""
    folders: dict[str, list[str]] = {}
    for file in sorted(stage.rglob("*")):
        inside = file.relative_to(stage)
        if file.is_file() and python_folder not in file.parents and inside.parts[0] != "bin":
            folders.setdefault(str(inside.parent), []).append(str(file))
    return list(folders.items())


def replace(source: Path, target: Path) -> None:
    """Copy to a new file: overwriting a library that a process has loaded would crash it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    shutil.copy2(source, target)


def ros_prefixes() -> list[str]:
    """Where ROS packages may be: a sourced distribution, then the environment of this interpreter."""
    sourced = [folder for folder in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if folder]
    return [*sourced, sys.prefix]


def missing_for_messages(prefixes: list[str]) -> str | None:
    """What this machine lacks to build messages; None: nothing."""
    if not any((Path(folder) / "share" / "rosidl_default_generators" / "cmake").is_dir() for folder in prefixes):
        return "no rosidl found (source a ROS distribution, or install this package's extra [ros] first)"
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        return "no Python.h found (install python3-dev)"
    return None


def cmake_install(build: Path, prefixes: list[str], *, messages: bool) -> Path:
    """Run CMake; returns the folder it installed into."""
    stage = build / "stage"
    shutil.rmtree(stage, ignore_errors=True)
    known = {file.stem for file in (build / "cmake" / "rosidl_adapter" / PACKAGE / "msg").glob("*.idl")}
    if known - {file.stem for file in (ROOT / "msg").glob("*.msg")}:
        shutil.rmtree(build / "cmake")  # rosidl does not notice that a message is gone
    options = [
        f"-DCMAKE_INSTALL_PREFIX={stage}",
        f"-DCACHEINF_MESSAGES={'ON' if messages else 'OFF'}",
        f"-DCMAKE_PREFIX_PATH={';'.join(prefixes)}",
        f"-DPython3_EXECUTABLE={sys.executable}",
        "-DBUILD_TESTING=OFF",
        "-DCMAKE_BUILD_TYPE=Release",
    ]
    if ninja := tool("ninja"):
        options += ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
    cmake = tool("cmake") or "cmake"
    environment = build_environment(prefixes)
    for command in (
        [cmake, "-S", str(ROOT), "-B", str(build / "cmake"), *options],
        [cmake, "--build", str(build / "cmake")],
        [cmake, "--install", str(build / "cmake")],
    ):
        subprocess.run(command, check=True, env=environment)
    return stage


def tool(name: str) -> str | None:
    """A build tool: the program inside its PyPI package (the script around it needs pip's PYTHONPATH), else PATH's."""
    try:
        package = __import__(name)
    except ImportError:
        return shutil.which(name)
    program = Path(getattr(package, "CMAKE_BIN_DIR", None) or getattr(package, "BIN_DIR", "")) / name
    return str(program) if program.is_file() else shutil.which(name)


def build_environment(prefixes: list[str]) -> dict[str, str]:
    """Without pip's isolation: rosidl's generators are Python packages of the environment that is installed into."""
    environment = dict(os.environ, AMENT_PREFIX_PATH=os.pathsep.join(prefixes))
    if "PEP517_BUILD_BACKEND" in environment or "_PYPROJECT_HOOKS_BUILD_BACKEND" in environment:
        environment.pop("PYTHONPATH", None)
    return environment


def say(line: str) -> None:
    """To the log of the build, and past pip, which hides that, to whoever sits at the terminal."""
    print(f"{PACKAGE}: {line}", file=sys.stderr, flush=True)
    with suppress(OSError), open("/dev/tty", "w") as terminal:
        print(f"{PACKAGE}: {line}", file=terminal)


setup(
    version=ElementTree.parse(ROOT / "package.xml").findtext("version"),
    distclass=NativeDistribution,
    cmdclass={"build_ext": BuildWithCMake},
)
