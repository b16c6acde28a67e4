# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench truncation``: compares ways to decide what bounded mode holds back, on frames they did not see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine import EngineConfig, Mode, Preprocessor
from cacheinf_ros.engine.bounded import calibrate
from cacheinf_ros.engine.bounded.bases import Base, sensitivity_base, spread_base, standard_deviations
from cacheinf_ros.engine.bounded.candidates import propagation_points
from cacheinf_ros.engine.bounded.composed_frames import compose_frames
from cacheinf_ros.engine.bounded.curve import scaled
from cacheinf_ros.engine.bounded.sensitivity import channel_weights
from cacheinf_ros.engine.bounded.trial import Image, Trial, TrialEngine
from cacheinf_ros.engine.delta_threshold import Criterion, DeltaThreshold
from cacheinf_ros.engine.quality import OutputScale
from cacheinf_ros.graph import Model
from cacheinf_ros.matching import MatchingConfig, MatchingStream

CALIBRATED = "calibrated"
_SINGLE = "single threshold"
_LEVELS = (0.1, 0.2, 0.3, 0.4)  # shares of missed change
_AROUND = (0.05, 8.0)  # a curve's factors, relative to the one that misses most of what is asked for
_REPEATS = 5
_TINY = 1e-9
_SMALLEST_FACTOR, _BISECTIONS = 1e-7, 12
_RANKED = 20  # number of tensors that the ranking keeps
_RANKING_FACTOR = 0.001


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setting:
    """What a strategy may use.

    Attributes:
        ends: the model's input for the first and the last of the frames that strategies learn from.
        trials: an engine that runs these frames.
        scale: the scale of the errors.
        spreads: standard deviation of each tensor that an operator computes, by name.
    """

    model: Model
    ends: Sequence[NDArray[np.float32]]
    trials: TrialEngine
    scale: OutputScale
    spreads: Mapping[str, float]


def single_maximum(setting: Setting) -> Base:
    """Use one threshold for all, times each tensor's standard deviation, for the largest change over channels."""
    return {name: DeltaThreshold(threshold=std) for name, std in setting.spreads.items()}


def single_rms(setting: Setting) -> Base:
    """Use one threshold for all, as :func:`single_maximum`, for the root mean square over channels."""
    return spread_base(setting.model.graph, setting.spreads, setting.spreads, Criterion.ENERGY)


def pooled_rms(setting: Setting) -> Base:
    """Use one threshold as in :func:`single_rms` where changes would propagate, averaged over neighbours."""
    graph = setting.model.graph
    return spread_base(graph, propagation_points(graph), setting.spreads, Criterion.POOLED_ENERGY)


def sensitivity(setting: Setting) -> Base:
    """Use what holding a change back costs, by the Jacobian, where changes would propagate."""
    graph = setting.model.graph
    weights = channel_weights(graph, setting.ends, setting.scale)
    return sensitivity_base(graph, propagation_points(graph), weights, Criterion.ENERGY)


def ranked(setting: Setting) -> Base:
    """Use the twenty tensors that, tried alone, saved most time for the error that they added."""
    everywhere = single_rms(setting)
    exact = setting.trials.trial({}, setting.scale)

    def worth(name: str) -> float:
        trial = setting.trials.trial(scaled({name: everywhere[name]}, _RANKING_FACTOR), setting.scale)
        return (exact.milliseconds - trial.milliseconds) / max(trial.engine_error, 1e-9)

    best = sorted(everywhere, key=worth, reverse=True)[:_RANKED]
    return {name: everywhere[name] for name in best}


def run_truncation_benchmark(
    model: Model,
    images: Sequence[Image],
    *,
    config: EngineConfig,
    matching: MatchingConfig,
    calibration_frames: int,
    points: int = 9,
) -> dict[str, Any]:
    """Measure time against error for every strategy; each learns from the first frames and is measured on the rest."""
    torch.set_num_threads(config.threads)
    stream = MatchingStream(matching)
    maps: list[CacheMap | None] = [stream.match(image) for image in images]
    composed = compose_frames(Preprocessor(model.card), images, maps)
    learned, unseen = composed[:calibration_frames], composed[calibration_frames:]
    trials = TrialEngine(model, config, learned, tuple(Criterion))
    found = calibrate(model, learned, None, config.changed(mode=Mode.BOUNDED))
    preprocessor = Preprocessor(model.card)
    ends = [preprocessor.input(learned[i]) for i in (0, -1)]
    spreads = standard_deviations(model.graph, ends)
    setting = Setting(
        model=model,
        ends=ends,
        trials=trials,
        scale=found.output_scale,
        spreads={name: spreads[name] for name in trials.computed if name in spreads},
    )
    strategies: dict[str, Callable[[Setting], Base]] = {
        f"{_SINGLE}, maximum": single_maximum,
        f"{_SINGLE}, RMS": single_rms,
        "pooled RMS": pooled_rms,
        "ranked, RMS": ranked,
        "sensitivity": sensitivity,
        CALIBRATED: lambda _: found.base,
    }
    measured = TrialEngine(model, config, unseen, tuple(Criterion))
    bases = {name: make(setting) for name, make in strategies.items()}
    curves = {name: _curve(measured, base, found.output_scale, points) for name, base in bases.items()}
    return {
        "model": model.name,
        "frames": len(unseen) - 1,
        "changed_pixels": float(np.mean([1 - m.reuse_ratio for m in maps[1:] if m])),
        "exact": _point(measured.trial({}, found.output_scale), 0.0),
        "curves": curves,
        "savings": savings(curves),
        "measured_savings": measured_savings(measured, bases, curves, found.output_scale),
    }


def savings(curves: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[float, float]:
    """Return the share of the predicted time that calibrated thresholds save against the best single one.

    The shares are by missed change.
    """

    def saved(missed: float) -> float:
        return _saved({name: _at(curve, missed, "predicted_ms") for name, curve in curves.items()})

    return {missed: saved(missed) for missed in _LEVELS}


def measured_savings(
    engine: TrialEngine,
    bases: Mapping[str, Base],
    curves: Mapping[str, Sequence[Mapping[str, float]]],
    scale: OutputScale,
) -> dict[float, dict[str, Any]]:
    """Measure by the clock, strategies in turn, medians: "saved", and the "missed_change" that each reached."""
    judged = [name for name in bases if name == CALIBRATED or name.startswith(_SINGLE)]

    def measured(missed: float) -> dict[str, Any]:
        trials: dict[str, list[Trial]] = {name: [] for name in judged}
        for _ in range(_REPEATS):
            for name in judged:
                factor = _at(curves[name], missed, "factor")
                trials[name].append(engine.trial(scaled(bases[name], factor), scale))
        return {
            "saved": _saved({name: float(np.median([t.measured_ms for t in run])) for name, run in trials.items()}),
            "missed_change": {name: run[0].missed_change for name, run in trials.items()},
        }

    return {missed: measured(missed) for missed in _LEVELS}


def _saved(milliseconds: Mapping[str, float]) -> float:
    return 1 - milliseconds[CALIBRATED] / min(ms for name, ms in milliseconds.items() if name.startswith(_SINGLE))


def _at(curve: Sequence[Mapping[str, float]], missed: float, value: str) -> float:
    """Read a curve where it misses this share of the change, interpolated logarithmically between points."""
    reached = np.maximum.accumulate([p["missed_change"] for p in curve])  # it may waver where hardly anything is missed
    return float(np.exp(np.interp(missed, reached, [np.log(max(p[value], _TINY)) for p in curve])))


def _curve(engine: TrialEngine, base: Base, scale: OutputScale, points: int) -> list[dict[str, float]]:
    """Measure a strategy's curve, from hardly any missed change to nearly all."""
    low, high = _SMALLEST_FACTOR, 1.0
    for _ in range(_BISECTIONS):
        middle = (low * high) ** 0.5
        if engine.trial(scaled(base, middle), scale).missed_change > _LEVELS[-1]:
            high = middle
        else:
            low = middle
    return [_point(engine.trial(scaled(base, float(f)), scale), float(f)) for f in low * np.geomspace(*_AROUND, points)]


def _point(trial: Trial, factor: float) -> dict[str, float]:
    return {
        "factor": factor,
        "engine_error": trial.engine_error,
        "missed_change": trial.missed_change,
        "predicted_ms": trial.milliseconds,
        "measured_ms": trial.measured_ms,
        "active_flops": trial.active_share,
    }
