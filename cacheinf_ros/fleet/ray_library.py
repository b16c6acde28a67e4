# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The Ray library, imported when the first cluster is joined, and set up as this package needs it."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from cacheinf_ros.errors import CacheinfError, ConfigError

PATIENCE_S = 10.0
"""The time limit for answers through Ray."""
_ENVIRONMENT = {  # for nodes that are started here
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # the default, 15, would let processes that compute frames run after all others
}


def ray() -> Any:
    """Import and return Ray; raises :class:`ConfigError` where it is not installed."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        return import_module("ray")
    except ImportError:
        raise ConfigError("fleet: needs Ray, which is not installed: pip install 'ray[default]'") from None


def affinity(node: str) -> Any:
    """Return the scheduling strategy by which an actor runs on this node, or not at all."""
    strategies = import_module("ray.util.scheduling_strategies")
    return strategies.NodeAffinitySchedulingStrategy(node_id=node, soft=False)


def start_failure(error: Exception) -> str:
    """Return what an actor's constructor raised, in one line; empty: the actor has ended for another reason."""
    return str(error).strip().splitlines()[-1] if getattr(error, "actor_init_failed", False) else ""


def cause(error: Exception) -> str:
    """Return an error in one line: what an actor raised rather than its traceback."""
    inner = getattr(error, "cause", None) or error.__cause__
    text = str(inner) if isinstance(inner, CacheinfError) else str(error)
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__
