# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Measures latencies of contenders that run in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

REST_S = 0.01
"""The pause in seconds before each measurement.

It is repeated until the threads of the previous contender have stopped spinning, as they would between frames: those of
an ONNX Runtime with its defaults take 55 ms (measured), the others' 10 ms at most.
"""
_IDLE_SHARE = 0.2  # of one processor's time
_MOST_RESTS = 20

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


def timed(
    call: Callable[Arguments, Result], *arguments: Arguments.args, **keywords: Arguments.kwargs
) -> tuple[Result, float]:
    """Measure as :func:`measured` does, after a pause in which other threads stop spinning."""
    _rest()
    return measured(call, *arguments, **keywords)


def measured(
    call: Callable[Arguments, Result], *arguments: Arguments.args, **keywords: Arguments.kwargs
) -> tuple[Result, float]:
    """Return the result of a call, and how many milliseconds it took."""
    started = time.perf_counter_ns()
    result = call(*arguments, **keywords)
    return result, (time.perf_counter_ns() - started) / 1e6


def _rest() -> None:
    for _ in range(_MOST_RESTS):
        busy = time.process_time()
        time.sleep(REST_S)
        if time.process_time() - busy < _IDLE_SHARE * REST_S:
            return


def summary(latencies_ms: Sequence[float]) -> dict[str, Any]:
    """Return the median, 95th percentile and mean, in milliseconds."""
    values = np.asarray(latencies_ms)
    return {
        "p50": round(float(np.percentile(values, 50)), 3),
        "p95": round(float(np.percentile(values, 95)), 3),
        "mean": round(float(values.mean()), 3),
    }
