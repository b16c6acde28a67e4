# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Measures a compiled program's operators once, and keeps the result for the next start."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from cacheinf_ros.disk_cache import KeptFile
from cacheinf_ros.engine.backends import Backend
from cacheinf_ros.engine.cost.model import SHARES, CostModel, Curve
from cacheinf_ros.engine.engine_config import EngineConfig
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.measured_file import measured_file
from cacheinf_ros.engine.program import Program
from cacheinf_ros.graph import Model
from cacheinf_ros.graph.ir import Conv, Operator

_VERSION = 4
_RUNS = 3
_log = logging.getLogger(__name__)


def load_or_measure(make: Callable[[], Program], model: Model, config: EngineConfig, backend: Backend) -> CostModel:
    """Load the cost model of a model on this machine; where there is none, measure and store it.

    Second kernels are left out where all results are to have the same bits, as they add in another order.

    Args:
        make: makes the program to measure, which keeps all its maps and whose cache is overwritten; called only where
            it is needed.
        backend: the backend of that program.
    """
    cost = _load_or_measure(make, model, config, backend)
    return cost.without_alternatives if config.same_bits else cost


def _load_or_measure(make: Callable[[], Program], model: Model, config: EngineConfig, backend: Backend) -> CostModel:
    suffix = f"{_VERSION}.json"
    path = measured_file("costs", model, config, suffix, backend=backend.name, whatever_weights=True)
    file = KeptFile(path=path, what="cost model", remedy="measuring")
    stored = file.read_json(_parsed)
    if stored is not None:
        return stored
    started = time.perf_counter()
    measured = measure(make())
    _log.info("measured the kernels for %s in %.1f s", model.name, time.perf_counter() - started)
    if measured.curves:  # none without compiled kernels, which may be there at the next start
        file.write_json(asdict(measured))
    return measured


def measure(program: Program) -> CostModel:
    """Measure every operator that a compiled kernel computes; operators that are alike are measured once."""
    curves: dict[object, Curve] = {}
    found: dict[str, Curve] = {}
    for operator, active in program.profile.timeable():
        key = _key(operator, active.size)
        if key not in curves:
            curves[key] = _measured(program, operator, active)
        found[operator.output] = curves[key]
    return CostModel(curves=found, propagation_ns=_propagation_ns(program))


def _measured(program: Program, operator: Operator, active: ActiveSet) -> Curve:
    rows, alternative = [], []
    for share in SHARES:
        active.fill_middle(share)  # what changes in real frames lies together
        rows.append(min(program.profile.time(operator.output, alternative=False) for _ in range(_RUNS)))
        if program.profile.has_alternative(operator.output):
            alternative.append(min(program.profile.time(operator.output, alternative=True) for _ in range(_RUNS)))
    active.clear()
    return Curve(rows=tuple(rows), alternative=tuple(alternative) or None)


def _propagation_ns(program: Program) -> float:
    """Measure the nanoseconds per pixel of filling active sets, in a run in which a third of the input changed."""
    program.changed_input.fill_middle(1 / 3)
    took = []
    for _ in range(_RUNS):
        program.execute(refresh=True)
        took.append(program.profile.propagation_microseconds)
    return 1e3 * min(took) / max(1, program.plan.propagated_pixels)


def _key(operator: Operator, size: tuple[int, int]) -> object:
    """Return a key that is the same for operators that take the same time."""
    if isinstance(operator, Conv):
        shape = operator.weight.shape, operator.window, operator.groups
        return type(operator), *shape, operator.activation.kind, len(operator.inputs)
    return type(operator).__name__, operator.output, size


def _parsed(content: dict[str, Any]) -> CostModel:
    curves = {name: _curve(**curve) for name, curve in content["curves"].items()}
    return CostModel(curves=curves, propagation_ns=float(content["propagation_ns"]))


def _curve(rows: list[float], alternative: list[float] | None) -> Curve:
    if len(rows) != len(SHARES) or (alternative and len(alternative) != len(SHARES)):
        raise ValueError(f"a curve has {len(SHARES)} points")
    return Curve(rows=tuple(rows), alternative=tuple(alternative) if alternative else None)
