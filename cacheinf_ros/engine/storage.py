# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Where what was measured on this machine is kept between starts."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch

from cacheinf_ros.engine.config import EngineConfig
from cacheinf_ros.graph import Model
from cacheinf_ros.graph.identity import graph_hash

Content = TypeVar("Content")
_log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/cacheinf_ros``, by default ``~/.cache/cacheinf_ros``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cacheinf_ros"


def stored_file(kind: str, model: Model, config: EngineConfig, suffix: str) -> Path:
    """A file keyed by all that its content depends on: graph, weights, shapes, machine, device, threads, versions."""
    parts = (
        graph_hash(model.graph),
        platform.node(),
        platform.processor(),
        config.device,
        config.threads,
        config.precision.value,
    )
    key = "/".join(map(str, (*parts, torch.__version__, suffix)))
    name = f"{Path(model.name).name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.{suffix}"
    return cache_folder() / kind / name


def load_stored(path: Path, parse: Callable[[Any], Content], what: str, remedy: str) -> Content | None:
    """What a JSON file holds, parsed; None where there is none, or with a warning none that can be used.

    Args:
        what, remedy: for the warning, such as "cost model", "measuring".
    """
    try:
        return parse(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        _log.warning("the stored %s %s is unusable, %s anew: %s", what, path, remedy, error)
        return None


def store(content: Any, path: Path, what: str) -> None:
    """Write a JSON file; the folder is made. Fails with a warning where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content) + "\n", encoding="utf-8")
    except OSError as error:
        _log.warning("the %s cannot be kept for the next start: %s", what, error)
