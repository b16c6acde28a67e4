# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Keep graphs on this machine as the engine takes them: exporting a network again takes most of a load."""

from __future__ import annotations

import hashlib
import logging
import os
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

from cacheinf_ros.disk_cache import KeptFile, cache_folder
from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph.graph_io import decode_graph, encode_graph
from cacheinf_ros.graph.ir import Graph

MOST_BYTES = 4_000_000_000
"""The bytes that kept graphs take together, at most; those that were used least recently are removed first."""

_log = logging.getLogger(__name__)


def kept_file(key: str) -> Path:
    """Return where the graph is, or would be, that ``key`` describes completely, as torch and this package make it."""
    digest = hashlib.sha256(f"{key}/{torch.__version__}/{_how_graphs_are_made()}".encode()).hexdigest()
    return cache_folder() / "graphs" / f"{digest[:32]}.safetensors"


def kept_graph(path: Path) -> Graph | None:
    """Read a kept graph; None where there is none or, with a warning, where it cannot be used."""
    graph = _kept(path).read(decode_graph)
    if graph is not None:
        with suppress(OSError):  # where we may not touch it, it only loses its place in the order of use
            os.utime(path)
    return graph


def keep(graph: Graph, path: Path) -> bool:
    """Write the graph to ``path`` for later starts; returns False, with a warning, where that cannot be done."""
    try:
        content = encode_graph(graph)
    except ModelError as error:
        _log.warning("a graph cannot be kept, and so it is exported anew each time that it is loaded: %s", error)
        return False
    if not _kept(path).write(content):
        return False
    with suppress(OSError):  # others prune at the same time, or what is there is not ours
        _prune(path)
    return True


@cache
def _how_graphs_are_made() -> str:
    """Return a digest of the code that makes graphs: another version, or an edited checkout, makes other graphs."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    for file in sorted(folder.rglob("*.py")):
        digest.update(f"{file.relative_to(folder)}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def _kept(path: Path) -> KeptFile:
    return KeptFile(path=path, what="graph", remedy="exporting")


def _prune(newest: Path) -> None:
    """Remove the graphs that were used least recently beyond :data:`MOST_BYTES`, but never the newest."""
    others = [path for path in newest.parent.glob("*.safetensors") if path != newest]
    used = {path: path.stat() for path in others}
    excess = newest.stat().st_size + sum(each.st_size for each in used.values()) - MOST_BYTES
    for path in sorted(others, key=lambda path: used[path].st_mtime):
        if excess <= 0:
            return
        path.unlink(missing_ok=True)
        excess -= used[path].st_size
