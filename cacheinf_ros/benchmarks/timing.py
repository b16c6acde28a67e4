"""Latencies of contenders, measured in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

REST_S = 0.07
"""Pause before each measurement, until the threads of the contender before it have stopped spinning: ONNX Runtime's
take 55 ms (measured)."""

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


def timed(
    call: Callable[Arguments, Result], *arguments: Arguments.args, **keywords: Arguments.kwargs
) -> tuple[Result, float]:
    """The result of a call, and how many milliseconds it took."""
    time.sleep(REST_S)
    started = time.perf_counter_ns()
    result = call(*arguments, **keywords)
    return result, (time.perf_counter_ns() - started) / 1e6


def summary(latencies_ms: Sequence[float]) -> dict[str, Any]:
    """Median, 95th percentile and mean, in milliseconds."""
    values = np.asarray(latencies_ms)
    return {
        "p50": round(float(np.percentile(values, 50)), 3),
        "p95": round(float(np.percentile(values, 95)), 3),
        "mean": round(float(values.mean()), 3),
    }
