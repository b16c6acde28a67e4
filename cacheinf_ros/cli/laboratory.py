# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The laboratory: experiments of the papers in ``benchmarks/``, beside this package in a checkout and not installed."""

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
    "matcher": "Latency and match ratio of every matching algorithm.",
    "nodes": "What transport adds to matching and computing, for four kinds of cameras.",
    "offload": "Every way to divide the work between a robot and a server, over a link of limited bandwidth.",
    "fleet": "What a gateway adds to a shared frame, and real fleets of a few robots beside simulated ones.",
    "truncation": "Ways to decide what bounded mode holds back: time against error of each.",
    "truncation-plot": "Draw the curves of several reports side by side.",
    "catalog": "Many models under a budget, as in the MCDNN paper.",
    "offload-plot": "Latency by bandwidth, and over time where the link follows a trace.",
    "offload-map": "Which policy is best by bandwidth, server speed and reuse: predicted.",
    "paper": "A paper's tables and figures: what it says beside what comes out here.",
}
"""The laboratory's commands of ``cacheinf bench``, which are known everywhere: name -> help where they cannot run."""

_ROOT = Path(__file__).parents[2]
_ANYTHING = {"allow_extra_args": True, "ignore_unknown_options": True}


class LaboratoryError(CacheinfError):
    """An experiment was asked for where there is no checkout."""


def in_checkout(root: Path = _ROOT) -> bool:
    """Whether this package lies in a checkout of its repository; others install folders called benchmarks too."""
    return (root / "benchmarks" / "commands.py").is_file() and (root / "package.xml").is_file()


def laboratory(module: str, root: Path = _ROOT) -> ModuleType:
    """Import a module of the laboratory, such as ``benchmarks.memory``.

    Raises:
        LaboratoryError: there is none, for this is no checkout.
    """
    if not in_checkout(root):
        raise LaboratoryError(
            f"{module} is not installed: experiments of the papers are run from a checkout of the repository; clone "
            "it, run `make build` there, and use its .venv/bin/cacheinf"
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))  # of this process only, and of those that it starts to share the work
    return import_module(module)


def add_laboratory(bench: typer.Typer, root: Path = _ROOT) -> None:
    """Add the laboratory's commands; where there is no checkout, commands that say so."""
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
