# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The laboratory: experiments of the papers in ``benchmarks/``.

It lies beside this package in a checkout of the repository, and is not installed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

from cacheinf_ros.errors import CacheinfError

COMMANDS: Mapping[str, str] = {
    "matcher": "Measure latency and match ratio of every matching algorithm.",
    "nodes": "Measure what transport adds to matching and computing, for four kinds of cameras.",
    "offload": "Compare every way to divide the work between a robot and a server, over a link of limited bandwidth.",
    "fleet": "Measure what a gateway adds to a shared frame, and real fleets of a few robots beside simulated ones.",
    "truncation": "Compare ways to decide what bounded mode holds back: time against error of each.",
    "truncation-plot": "Draw the curves of several reports side by side.",
    "catalog": "Run many models under a budget, as in the MCDNN paper.",
    "offload-plot": "Plot latency by bandwidth, and over time where the link follows a trace.",
    "offload-map": "Predict which policy is best by bandwidth, server speed and reuse.",
    "offload-check": "Predict what `bench offload` measured, and show both.",
    "paper": "Print a paper's tables and figures beside what is measured here.",
}
"""The laboratory's commands of ``cacheinf bench``, which exist everywhere: name -> help where they cannot run."""

_ROOT = Path(__file__).parents[2]
_ANYTHING = {"allow_extra_args": True, "ignore_unknown_options": True}


class LaboratoryError(CacheinfError):
    """Raised where an experiment is asked for outside of a checkout."""


def in_checkout(root: Path = _ROOT) -> bool:
    """Tell whether this package lies in a checkout of its repository.

    Other packages install folders called benchmarks, too.
    """
    return (root / "benchmarks" / "commands.py").is_file() and (root / "package.xml").is_file()


def laboratory(module: str, root: Path = _ROOT) -> ModuleType:
    """Import a module of the laboratory, such as ``benchmarks.memory``.

    Raises:
        LaboratoryError: this is no checkout, so that there is no such module.
    """
    if not in_checkout(root):
        raise LaboratoryError(
            f"{module} is not installed: experiments of the papers are run from a checkout of the repository; clone "
            "it, run `make build` there, and use its .venv/bin/cacheinf"
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))  # only for this process, and for those that it starts to share the work
    return import_module(module)


def add_laboratory(bench: typer.Typer, root: Path = _ROOT) -> None:
    """Add the laboratory's commands; outside of a checkout, commands that say so."""
    if in_checkout(root):
        for name, command in laboratory("benchmarks.commands", root).COMMANDS.items():
            bench.command(name)(command)
        return
    for name, text in COMMANDS.items():
        help_text = f"{text} Needs a checkout of the repository."
        bench.command(name, help=help_text, context_settings=_ANYTHING)(_refusal(f"cacheinf bench {name}", root))


def _refusal(command: str, root: Path) -> Callable[[typer.Context], Any]:
    def refuse(context: typer.Context) -> None:
        laboratory(command, root)

    return refuse
