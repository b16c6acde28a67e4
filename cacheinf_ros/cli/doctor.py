# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf doctor``: reports what this machine has, and what is missing for which purpose."""

from __future__ import annotations

import importlib
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cacheinf_ros.errors import INSTALL_REMEDY, MESSAGES_REMEDY
from cacheinf_ros.fast_dds import HOLE_REMEDY, known_hole, loaded_library
from cacheinf_ros.processor_quota import processor_quota

_BOUNDED = "mode bounded, which uses the fastest engine there is, and bench"
_PAGES = "pages and pictures of cacheinf"
_ONNX = "ONNX models and engines"
PACKAGES = {
    "torch": "", "numba": "", "numpy": "", "opencv-python-headless": "", "pydantic": "", "pyyaml": "", "scipy": "",
    "safetensors": "", "rosbags": "", "psutil": "", "rich": "", "typer": "", "onnx": _ONNX, "onnxslim": _ONNX,
    "torchvision": "torchvision:NAME models", "onnxruntime": _BOUNDED, "openvino": _BOUNDED, "onnxscript": _BOUNDED,
    "scikit-image": "built-in scenes", "pillow": "drawn class maps", "matplotlib": _PAGES, "jinja2": _PAGES,
}  # fmt: skip
"""The packages that this one depends on: name -> what cannot be had without it; empty: anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the report.

    Attributes:
        needed: whether the package does not work without it.
        remedy: what to do where it is missing.
        otherwise: the mark of a finding that is not as it should be, but not needed.
    """

    subject: str
    value: str
    found: bool = True
    needed: bool = True
    remedy: str = ""
    otherwise: str = "absent"


def doctor() -> None:
    """Say what is installed: libraries, ROS and its middleware, messages, compiled kernels, devices.

    Exit code 1 where something that the package needs is missing.
    """
    findings = list(_findings())
    table = Table("", "what", "found", "what to do")
    for finding in findings:
        mark = (
            "[green]ok[/]"
            if finding.found
            else ("[red]missing[/]" if finding.needed else f"[yellow]{finding.otherwise}[/]")
        )
        table.add_row(mark, finding.subject, escape(finding.value), "" if finding.found else escape(finding.remedy))
    Console().print(table)
    if any(finding.needed and not finding.found for finding in findings):
        sys.exit(1)


def _findings() -> Iterator[Finding]:
    yield Finding(subject="Python", value=platform.python_version())
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    quota = processor_quota()
    usable = f", of which a quota allows {quota:g}" if quota < (os.cpu_count() or 1) else ""
    yield Finding(subject="processor", value=f"{os.cpu_count()} cores{usable}, {memory:.0f} GiB, {platform.machine()}")
    for name, purpose in PACKAGES.items():
        yield _package(name, needed=not purpose, purpose=purpose)
    yield _asked("commands", _commands, remedy=INSTALL_REMEDY)
    yield _asked("compiled kernels", _kernels, remedy="`make build` compiles them (needs g++)", needed=False)
    yield _asked("devices", _devices, remedy="")
    yield _package("triton", needed=False, purpose="device: cuda")
    yield _asked("ROS 2", _ros, remedy="`make build` installs it from wheels, or source a ROS distribution")
    yield _asked("RMW", _middleware, remedy="pip install ros-rclpy[fastrtps]")
    yield _fast_dds()
    yield _asked("messages", _messages, remedy=MESSAGES_REMEDY)
    remedy = "optional: comes with a ROS distribution"
    yield _asked("vision_msgs", _importable("vision_msgs"), remedy=remedy, needed=False)


def _package(name: str, *, needed: bool, purpose: str = "") -> Finding:
    try:
        return Finding(subject=name, value=version(name))
    except PackageNotFoundError:
        remedy = f"pip install {name}" + (f" (for {purpose})" if purpose else "")
        return Finding(subject=name, value="", found=False, needed=needed, remedy=remedy)


def _asked(subject: str, question: Callable[[], str], *, remedy: str, needed: bool = True) -> Finding:
    try:
        return Finding(subject=subject, value=question())
    except Exception as error:  # the user wants to read whatever a broken installation raises
        reason = str(error).strip().splitlines()
        value = reason[0][:80] if reason else type(error).__name__
        return Finding(subject=subject, value=value, found=False, needed=needed, remedy=remedy)


def _commands() -> str:
    importlib.import_module("cacheinf_ros.cli.all_commands")
    return "all can be loaded"


def _kernels() -> str:
    from cacheinf_ros.engine import kernel_library

    library = kernel_library()
    if library is None:
        raise FileNotFoundError("not built: the slower kernels in torch are used")
    return str(library.ci_instruction_set().decode()) + (" and amx" if library.ci_has_tiles() else "")


def _devices() -> str:
    import torch

    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return ", ".join(["cpu", *gpus])


def _ros() -> str:
    importlib.import_module("rclpy")
    return f"rclpy {_version_of('rclpy', 'ros-rclpy')}, distribution {os.environ.get('ROS_DISTRO', 'from wheels')}"


def _version_of(*names: str) -> str:
    for name in names:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "?"


def _middleware() -> str:
    utilities: Any = importlib.import_module("rclpy.utilities")
    return str(utilities.get_rmw_implementation_identifier())


def _fast_dds() -> Finding:
    """Report the version of Fast DDS; must be called after the middleware was loaded."""
    library = loaded_library()
    if library is None:
        return Finding(subject="Fast DDS", value="not used")
    if library.version is None:
        value, hole = f"version unknown: {library.path}", "not to be excluded"
    else:
        hole = known_hole(library.version)
        value = ".".join(map(str, library.version)) + (f": {hole}" if hole else "")
    return Finding(
        subject="Fast DDS", value=value, found=not hole, needed=False, remedy=HOLE_REMEDY, otherwise="warning"
    )


def _messages() -> str:
    messages: Any = importlib.import_module("cacheinf_ros.msg")
    # an import alone does not load the type support, which is what a failed build lacks
    support: Any = importlib.import_module("rclpy.type_support")
    names = [name for name in dir(messages) if name[0].isupper()]
    for name in names:
        support.check_for_type_support(getattr(messages, name))
    return ", ".join(names)


def _importable(name: str) -> Callable[[], str]:
    def question() -> str:
        importlib.import_module(name)
        return "yes"

    return question
