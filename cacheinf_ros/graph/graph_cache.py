# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Graphs, kept on this machine as the engine takes them: exporting a network again takes most of a load."""

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
"""Kept graphs take no more than that together; those that were used least recently go first."""

_log = logging.getLogger(__name__)


def kept_file(key: str) -> Path:
    """Where the graph is, or would be, of what this text describes completely, as torch and this package make it."""
    digest = hashlib.sha256(f"{key}/{torch.__version__}/{_how_graphs_are_made()}".encode()).hexdigest()
    return cache_folder() / "graphs" / f"{digest[:32]}.safetensors"


def kept_graph(path: Path) -> Graph | None:
    """The graph; None where there is none, or with a warning none that can be used."""
    graph = _kept(path).read(decode_graph)
    if graph is not None:
        with suppress(OSError):  # where it is not ours to touch, it only misses its place in the order of use
            os.utime(path)
    return graph


def keep(graph: Graph, path: Path) -> bool:
    """Have the graph there from now on. Returns False, with a warning, where that cannot be done."""
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
    """A digest of the code that makes graphs: another version, or a checkout that was edited, makes others."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    for file in sorted(folder.rglob("*.py")):
        digest.update(f"{file.relative_to(folder)}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def _kept(path: Path) -> KeptFile:
    return KeptFile(path=path, what="graph", remedy="exporting")


def _prune(newest: Path) -> None:
    """Remove what is too much, but never the newest."""
    others = [path for path in newest.parent.glob("*.safetensors") if path != newest]
    used = {path: path.stat() for path in others}
    excess = newest.stat().st_size + sum(each.st_size for each in used.values()) - MOST_BYTES
    for path in sorted(others, key=lambda path: used[path].st_mtime):
        if excess <= 0:
            return
        path.unlink(missing_ok=True)
        excess -= used[path].st_size
