# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Dense execution by the installed backends: which there are for a model, and what one of them answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine import DensePrecision, EngineConfig, EngineResult, Selection
from cacheinf_ros.engine.decisions import Task, task_of_model
from cacheinf_ros.engine.dense_backends import Backend, DenseBackend, backends_for, faster_backends, fastest_backends
from cacheinf_ros.engine.quantisation import is_int8
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import Model
from cacheinf_ros.mode import Mode
from cacheinf_ros.pipeline.guard import Told, guarded
from cacheinf_ros.sources.scenes import Gallery, load_photographs

AllOutputs = Mapping[str, NDArray[Any]]
_FAR_OFF = 0.5  # relative error above which outputs have little to do with the network's
_OF_16_BITS = (DensePrecision.FLOAT16, DensePrecision.BFLOAT16)


def compute_densely(
    model: Model, backend: DenseBackend, image: NDArray[np.uint8], *, cached: bool = False
) -> EngineResult:
    """Compute a frame, uint8 [height, width, 3]; ``cached``: whether the engine's cache holds the frame as well."""
    started = time.perf_counter_ns()
    prepared_input = backend.read(image)
    prepared = time.perf_counter_ns()
    names = (name for name, _ in model.graph.outputs)
    outputs = dict(zip(names, backend.run(prepared_input), strict=True))
    computed = time.perf_counter_ns()
    return EngineResult(
        outputs=outputs,
        mode=Mode.DENSE,
        reuse_ratio=0.0,
        active_share=1.0,
        stage_ms={"prepare": (prepared - started) / 1e6, "compute": (computed - prepared) / 1e6},
        refreshed=True,
        cached=cached,
        by_engine=False,
    )


def full_precision_backends(
    model: Model, config: EngineConfig, is_wanted: Callable[[], bool]
) -> tuple[DenseBackend, ...]:
    """Prepare the float32 backends, the fastest first; this takes seconds.

    A model that is computed in int8 by its own scales (:attr:`Model.scales`) gets only that backend: the model's
    accuracy was measured with it.

    Args:
        is_wanted: asked before each backend is prepared.

    Raises:
        Told: they are not wanted any more.
    """
    if is_int8(model, config.device):
        return fastest_backends(model, config.threads, (Backend.OWN_INT8,))
    full = backends_for(config.device, DensePrecision.FLOAT32)
    return fastest_backends(model, config.threads, _while_wanted(full, is_wanted), config.device)


def half_precision_backends(
    model: Model,
    config: EngineConfig,
    best: DenseBackend,
    photographs: Sequence[AllOutputs],
    is_wanted: Callable[[], bool],
) -> Iterator[DenseBackend]:
    """Prepare the 16-bit backends that the user allows and that beat the best float32 one; none for a model in int8.

    Args:
        photographs: the float32 outputs for photographs; a backend whose outputs are far from them is left out, and
            named in the log.
        is_wanted: asked before each backend is prepared.

    Raises:
        Told: they are not wanted any more.
    """
    if is_int8(model, config.device):
        return
    narrower = backends_for(config.device, *filter(config.dense_precision.allows, _OF_16_BITS))
    wanted = _while_wanted(narrower, is_wanted)
    for backend in faster_backends(model, config.threads, best, wanted, None, config.device):
        with guarded(f"{backend.name} is not used") as failure:
            error = _error(answers_to_photographs(model, backend), photographs)
            if not error <= _FAR_OFF:
                raise EngineError(f"its outputs have a relative error of {error:.2g} on photographs")
        if not failure:
            yield backend


def _while_wanted(backends: Iterable[Backend], is_wanted: Callable[[], bool]) -> Iterator[Backend]:
    """Yield backends to prepare, each when the one before is ready, which takes seconds."""
    for backend in backends:
        if not is_wanted():
            raise Told("nobody waits for dense backends any more")
        yield backend


def may_quantise(model: Model, config: EngineConfig) -> bool:
    """Tell whether a model is not in int8 yet, the user allows int8, and an installed backend computes it."""
    allows = config.dense_precision.allows(DensePrecision.INT8) and not is_int8(model, config.device)
    return allows and bool(backends_for(config.device, DensePrecision.INT8))


def answers_to_photographs(model: Model, backend: DenseBackend) -> list[AllOutputs]:
    """Return the outputs by name for each of the built-in photographs; each picture of a frame shows it."""
    shown = load_photographs(Gallery.TEST)
    frames = (np.concatenate([image] * model.card.pictures, axis=1) for image in shown)  # one at a time: they are large
    return [
        {name: np.copy(value) for name, value in compute_densely(model, backend, frame).outputs.items()}
        for frame in frames
    ]  # copies: the next run may overwrite outputs


def judging_task(model: Model, photographs: Sequence[AllOutputs], most_pixels: int, selection: Selection) -> Task[Any]:
    """Make the task that judges the model's answers.

    Args:
        photographs: the float32 outputs for photographs: their variation scales errors of outputs without a decoder.
        most_pixels: how many pixels of a class map, or values of another output, are looked at.
        selection: which answers the user wants.
    """
    deviations = _deviations(photographs)
    return task_of_model(model.card, photographs[0], deviations, selection=selection, most_pixels=most_pixels)


def _deviations(outputs: Sequence[AllOutputs]) -> list[float]:
    """Return the standard deviation of each output over images."""
    return [float(np.sqrt(np.mean(np.var([of_one[name] for of_one in outputs], axis=0)))) for name in outputs[0]]


def _error(ours: Sequence[AllOutputs], photographs: Sequence[AllOutputs]) -> float:
    """Return the largest output's RMS error over the RMS of its values; NaN where any value is not finite."""
    errors = []
    for name in photographs[0]:
        found, right = (np.array([of_one[name] for of_one in each], np.float64) for each in (ours, photographs))
        size = max(float(np.mean(np.square(right))), np.finfo(np.float64).tiny)
        errors.append(float(np.sqrt(np.mean(np.square(found - right)) / size)))
    return float(np.max(errors))
