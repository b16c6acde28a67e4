# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Traces of requests to models, for the simulation of MCDNN's section 6.2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cacheinf_ros.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A sequence of requests.

    Attributes:
        times_s: the time of each request in seconds since the trace began; not decreasing.
        models: the model that each request asks for.
    """

    times_s: tuple[float, ...]
    models: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.times_s) != len(self.models) or any(later < time for time, later in pairwise(self.times_s)):
            raise ConfigError("a trace needs as many times as models, and times that do not go back")

    def __iter__(self) -> Iterator[tuple[float, str]]:
        """Yield (seconds, model) of each request."""
        return zip(self.times_s, self.models, strict=True)

    def __len__(self) -> int:
        return len(self.times_s)


def random_trace(models: Sequence[str], *, requests: int, duration_s: float, load_rate: float, seed: int) -> Trace:
    """Generate requests at random times, each for the model of the request before it, or sometimes for another.

    Args:
        models: the models to ask for, equally often in the long run.
        requests: the number of requests.
        duration_s: the time within which they come, uniformly distributed.
        load_rate: in [0, 1], the probability that a request is for any other model than the one before: how often
            models have to be paged in where the cache holds one; see :func:`load_rate_of`.
        seed: equal arguments give equal traces.

    Raises:
        ConfigError: there is no model, or the rate is no probability.
    """
    if not models or not 0 <= load_rate <= 1:
        raise ConfigError(f"load rate {load_rate} over {len(models)} models: expected a model and a rate from 0 to 1")
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0.0, duration_s, requests))
    first = rng.integers(len(models))
    steps = np.zeros(requests, np.int64)
    if len(models) > 1:
        moves = rng.random(requests) < load_rate
        steps[moves] = rng.integers(1, len(models), int(moves.sum()))
    indices = (first + np.cumsum(steps)) % len(models)
    return Trace(times_s=tuple(times.tolist()), models=tuple(models[i] for i in indices.tolist()))


def load_rate_of(trace: Trace, sizes: Mapping[str, int], cache_bytes: int) -> float:
    """Return MCDNN's measure of a trace: the miss rate of an LRU cache, weighted by the missed size.

    Args:
        trace: the requests.
        sizes: bytes of each model; one that is larger than the cache is missed whenever it is asked.
        cache_bytes: the size of the cache.

    Returns:
        the bytes that were missed over the bytes that were asked for.
    """
    held: dict[str, int] = {}
    missed = asked = 0
    for _, model in trace:
        size = sizes[model]
        asked += size
        if model in held:
            held[model] = held.pop(model)
            continue
        missed += size
        if size <= cache_bytes:
            while sum(held.values()) + size > cache_bytes:
                del held[next(iter(held))]
            held[model] = size
    return missed / asked if asked else 0.0
