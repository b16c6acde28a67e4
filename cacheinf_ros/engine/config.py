"""How the engine runs."""

from __future__ import annotations

from enum import Enum

from cacheinf_ros.config import Config, parameter


class Mode(Enum):
    """What is taken from the cache."""

    DENSE = "dense"
    """Nothing: every pixel is computed."""
    EXACT = "exact"
    """Every pixel whose whole receptive field did not change, at the same position: equal to dense."""
    DEEPCACHE = "deepcache"
    """Like exact, and where the picture moved, cached features move with it (DeepCache): no longer equal to dense."""


class EngineConfig(Config):
    """Parameters of the engine."""

    mode: Mode = parameter(Mode.EXACT, "what is taken from the cache: dense, exact or deepcache", live=True)
    device: str = parameter("cpu", "torch device that holds the model: cpu, cuda, cuda:1")
    threads: int = parameter(2, "threads of the engine's own kernels", low=1, high=256)
