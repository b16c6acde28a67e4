# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Calibrations kept between starts, in the user's cache directory."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.disk_cache import KeptFile
from cacheinf_ros.engine.bounded.calibration import Calibration
from cacheinf_ros.engine.bounded.curve import CurvePoint
from cacheinf_ros.engine.caching import EVERYTHING, Caching
from cacheinf_ros.engine.delta_threshold import Criterion, DeltaThreshold
from cacheinf_ros.engine.engine_config import EngineConfig
from cacheinf_ros.engine.measured_file import measured_file
from cacheinf_ros.engine.quality import OutputScale
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import Graph, Model

_VERSION = 3  # of the file's content
_CONTENT = "__content__"


def calibration_file(model: Model, config: EngineConfig, caching: Caching = EVERYTHING) -> Path:
    """Return the path of a model's calibration on this machine, for an engine with such caches."""
    dropped = " ".join(sorted(caching.dropped))
    kept = f"{hashlib.sha256(dropped.encode()).hexdigest()[:8]}-" if dropped else ""
    return measured_file("calibrations", model, config, f"{kept}{_VERSION}.npz")


def save_calibration(calibration: Calibration, path: Path) -> None:
    """Write a calibration, and make its folder; where that fails there is only a warning."""
    content = {
        "curve": [asdict(point) for point in calibration.curve],
        "deviations": calibration.output_scale.deviations,
        "base": {name: (t.threshold, t.criterion.value) for name, t in calibration.base.items()},
    }
    arrays: dict[str, Any] = {name: t.weight for name, t in calibration.base.items() if t.weight is not None}
    arrays[_CONTENT] = np.array(json.dumps(content))
    written = BytesIO()
    np.savez(written, allow_pickle=False, **arrays)
    _kept(path).write(written.getvalue())


def load_calibration(path: Path, graph: Graph) -> Calibration | None:
    """Read a calibration of a model with this graph; None where there is none, or (with a warning) none that fits."""
    return _kept(path).read(lambda data: checked_calibration(data, graph))


def _kept(path: Path) -> KeptFile:
    return KeptFile(path=path, what="calibration", remedy="calibrating")


def checked_calibration(data: memoryview, graph: Graph) -> Calibration:
    """Read and check a calibration that anyone may have written: compiled kernels trust the lengths of its weights.

    Raises:
        Exception: of many kinds, where the data is no calibration.
        EngineError: it is not for this graph, or has numbers that say nothing.
    """
    with np.load(BytesIO(data)) as file:
        found = _calibration(json.loads(str(file[_CONTENT])), {name: file[name] for name in file.files})
    if not _fits(found, graph):
        raise EngineError("it is not for this network, or has numbers that say nothing")
    return found


def _fits(found: Calibration, graph: Graph) -> bool:
    factors = [point.factor for point in found.curve]
    numbers = [value for point in found.curve for value in asdict(point).values()]
    weights = {name: delta.weight for name, delta in found.base.items() if delta.weight is not None}
    return (
        found.base.keys() <= graph.tensors.keys()
        and bool(factors)
        and factors == sorted(set(factors))
        and factors[0] >= 0
        and math.isfinite(factors[-1])
        and not any(math.isnan(number) for number in numbers)
        and all(math.isfinite(delta.threshold) for delta in found.base.values())
        and all(math.isfinite(deviation) for deviation in found.output_scale.deviations)
        and all(
            weight.dtype == np.float32
            and weight.shape == (graph.tensors[name].channels,)
            and bool(np.isfinite(weight).all())
            for name, weight in weights.items()
        )
    )


def _calibration(content: dict[str, Any], weights: dict[str, NDArray[np.float32]]) -> Calibration:
    base = {
        name: DeltaThreshold(threshold=threshold, criterion=Criterion(criterion), weight=weights.get(name))
        for name, (threshold, criterion) in content["base"].items()
    }
    curve = tuple(CurvePoint(**point) for point in content["curve"])
    return Calibration(base=base, curve=curve, output_scale=OutputScale(deviations=tuple(content["deviations"])))
