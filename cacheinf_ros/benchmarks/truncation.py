"""``cacheinf bench truncation``: ways to decide what bounded mode holds back, compared on frames they did not see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine import EngineConfig, Mode, Preprocessor
from cacheinf_ros.engine.bounded import calibrate
from cacheinf_ros.engine.bounded.calibration import scaled
from cacheinf_ros.engine.bounded.composing import compose_frames
from cacheinf_ros.engine.bounded.trial import Image, Trial, TrialEngine
from cacheinf_ros.engine.quality import OutputScale
from cacheinf_ros.engine.truncation import Criterion, Truncation
from cacheinf_ros.graph import Model
from cacheinf_ros.graph.interpret import DenseGraph
from cacheinf_ros.matching import MatchingConfig, MatchingStream

Base = dict[str, Truncation]
CALIBRATED = "sensitivity, searched"
_SINGLE = "single threshold"
_LEVELS = (0.1, 0.2, 0.3, 0.4)  # of missed change
_RANKED = 20  # tensors that the ranking keeps
_RANKING_FACTOR = 0.03


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setting:
    """What strategies may look at.

    Attributes:
        composed: the frames to learn from, as the cache stands for them.
        trials: an engine on these frames.
        scale: of the errors.
    """

    model: Model
    composed: Sequence[Image]
    trials: TrialEngine
    scale: OutputScale


def single_maximum(setting: Setting) -> Base:
    """One threshold for all tensors, times each one's standard deviation; the largest change over channels counts."""
    return {name: Truncation(threshold=std) for name, (std, _) in _deviations(setting).items()}


def single_rms(setting: Setting) -> Base:
    """The same; the root mean square over channels counts."""
    return {
        name: Truncation(threshold=std * channels**0.5, criterion=Criterion.ENERGY)
        for name, (std, channels) in _deviations(setting).items()
    }


def ranked(setting: Setting) -> Base:
    """The tensors that saved most time for the error they added when each was tried alone, greedily the best twenty."""
    everywhere = single_rms(setting)
    exact = setting.trials.run({}, setting.scale)

    def worth(name: str) -> float:
        trial = setting.trials.run(scaled({name: everywhere[name]}, _RANKING_FACTOR), setting.scale)
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
    points: int = 7,
) -> dict[str, Any]:
    """Time against error for every strategy; each learns from the first frames and is measured on the rest."""
    torch.set_num_threads(config.threads)
    stream = MatchingStream(matching)
    maps: list[CacheMap | None] = [stream.match(image) for image in images]
    composed = compose_frames(Preprocessor(model.card), images, maps)
    learned, unseen = composed[:calibration_frames], composed[calibration_frames:]
    trials = TrialEngine(model, config, learned)
    found = calibrate(model, learned, None, config.changed(mode=Mode.BOUNDED))
    setting = Setting(model=model, composed=learned, trials=trials, scale=found.output_scale)
    middle = found.scale_for(config.max_error, config.max_missed) or 1e-4
    strategies: dict[str, tuple[Callable[[], Base], float]] = {
        f"{_SINGLE}, maximum": (lambda: single_maximum(setting), 0.03),
        f"{_SINGLE}, RMS": (lambda: single_rms(setting), 0.02),
        "ranked, RMS": (lambda: ranked(setting), 0.04),
        "sensitivity": (lambda: {n: replace(t, threshold=1.0) for n, t in found.base.items()}, middle),
        CALIBRATED: (lambda: dict(found.base), middle),
    }
    measured = TrialEngine(model, config, unseen)
    curves = {}
    for name, (make, around) in strategies.items():
        base = make()
        factors = around * np.geomspace(0.1, 6.0, points)
        curves[name] = [_point(measured.run(scaled(base, float(f)), found.output_scale), float(f)) for f in factors]
    return {
        "model": model.name,
        "frames": len(unseen) - 1,
        "changed_pixels": float(np.mean([1 - m.reuse_ratio for m in maps[1:] if m])),
        "exact": _point(measured.run({}, found.output_scale), 0.0),
        "curves": curves,
        "savings": savings(curves),
    }


def savings(curves: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[float, float]:
    """By missed change: share of the predicted time that calibrated thresholds save against the best single one.

    Times are interpolated between the points of a curve, logarithmically.
    """

    def at(name: str, missed: float) -> float:
        points = curves[name]
        return float(
            np.exp(np.interp(missed, [p["missed_change"] for p in points], [np.log(p["predicted_ms"]) for p in points]))
        )

    return {
        missed: 1 - at(CALIBRATED, missed) / min(at(name, missed) for name in curves if name.startswith(_SINGLE))
        for missed in _LEVELS
    }


def plot_truncation(reports: Sequence[dict[str, Any]], path: Path) -> None:
    """One panel per report: milliseconds against missed change."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(reports), 4.0), layout="constrained")
    for axes, report in zip(np.atleast_1d(figure.subplots(1, len(reports))), reports, strict=True):
        for name, curve in report["curves"].items():
            axes.plot([p["missed_change"] for p in curve], [p["predicted_ms"] for p in curve], marker=".", label=name)
        axes.axhline(report["exact"]["predicted_ms"], color="grey", linestyle=":", label="exact")
        axes.set(
            title=f"{report['model']}, {report['source']}",
            xlabel="missed change",
            ylabel="predicted ms per frame",
            xlim=(0, 1),
        )
        axes.set_ylim(bottom=0)
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=110)


def _deviations(setting: Setting) -> dict[str, tuple[float, int]]:
    """By tensor that an operator computes: standard deviation of its values, and channels."""
    image = Preprocessor(setting.model.card).input(setting.composed[0])
    with torch.inference_mode():
        values = DenseGraph(setting.model.graph).tensors(torch.from_numpy(image))
    tensors = setting.model.graph.tensors
    computed = (operator.output for operator, _ in setting.trials.program.timeable())
    return {name: (float(values[name].std()), tensors[name].channels) for name in computed if tensors[name].pixels > 1}


def _point(trial: Trial, factor: float) -> dict[str, float]:
    return {
        "factor": factor,
        "engine_error": trial.engine_error,
        "missed_change": trial.missed_change,
        "predicted_ms": trial.milliseconds,
        "measured_ms": trial.measured_ms,
        "active_flops": trial.active_share,
    }
