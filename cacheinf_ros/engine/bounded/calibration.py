"""Which changes of which tensors may be held back, found on a few frames of the user's stream.

1. Candidates are the tensors from which a change would spread (candidates.py).
2. A change is measured by the error it costs if it is held back (sensitivity.py), so that one threshold for all tensors
   is a fair start.
3. Trials over the frames with growing thresholds show error and predicted time: a curve.
4. Near what the user asked for, each tensor's threshold is doubled and halved; what lowers time more than its error is
   worth along the curve is kept (coordinate search). Then the curve is measured again.

``max_error`` and ``max_missed`` choose a point of the curve, also later, while the engine runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine.bounded.candidates import growth_points
from cacheinf_ros.engine.bounded.composing import compose_frames
from cacheinf_ros.engine.bounded.sensitivity import channel_weights
from cacheinf_ros.engine.bounded.trial import Trial, TrialEngine
from cacheinf_ros.engine.config import EngineConfig
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.engine.quality import OutputScale
from cacheinf_ros.engine.truncation import Criterion, Truncation
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import Model
from cacheinf_ros.sources.scenes import Gallery, load_photographs

Image = NDArray[np.uint8]
_FACTORS = tuple(float(f) for f in np.geomspace(1e-6, 3e-2, 14))
_DRAWS = 4
_MARGIN = 0.8  # of the promise: the stream will differ from the frames of the calibration
_ENOUGH = 0.5  # trials stop at this engine_error: nobody asks for more
_SMALLEST = 1e-9  # errors below count as this one where logarithms are taken


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """What a factor of the thresholds led to; see :class:`Trial`."""

    factor: float
    engine_error: float
    missed_change: float
    milliseconds: float
    active_share: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibration:
    """Thresholds, and what they lead to.

    Attributes:
        base: by tensor, at factor 1.
        curve: by growing factor, starting with 0: exact.
        output_scale: of the errors.
    """

    base: Mapping[str, Truncation]
    curve: tuple[CurvePoint, ...]
    output_scale: OutputScale

    def scale_for(self, max_error: float, max_missed: float) -> float:
        """The factor that saves most time while both errors stay below a margin of these; 0: nothing does.

        Between two points of the curve that keep and break the promise, the factor is interpolated.
        """
        return factor_for(self.curve, _MARGIN * max_error, _MARGIN * max_missed)

    def truncations(self, factor: float) -> dict[str, Truncation]:
        """By tensor, for a factor; none at 0."""
        return scaled(self.base, factor)


def factor_for(curve: Sequence[CurvePoint], max_error: float, max_missed: float) -> float:
    """The largest factor with both errors below these, interpolated between points of the curve; 0: there is none."""
    good = curve[0]
    for point in curve[1:]:
        excess = max(_log_ratio(point.engine_error, max_error), _log_ratio(point.missed_change, max_missed))
        if excess <= 0:
            good = point
            continue
        room = -max(_log_ratio(good.engine_error, max_error), _log_ratio(good.missed_change, max_missed))
        if good.factor == 0 or room <= 0:
            return good.factor
        return float(good.factor * (point.factor / good.factor) ** (room / (room + excess)))
    return good.factor


def scaled(base: Mapping[str, Truncation], factor: float) -> dict[str, Truncation]:
    """Thresholds times a factor; none at 0."""
    if factor <= 0:
        return {}
    return {name: replace(t, threshold=t.threshold * factor) for name, t in base.items()}


def calibrate(
    model: Model, frames: Sequence[Image], maps: Sequence[CacheMap | None] | None, config: EngineConfig
) -> Calibration:
    """Find thresholds for a model on frames in their order; the engine that runs them need not be this one.

    Args:
        maps: what of each frame is reusable, as the engine will be told; None: whatever did not change at all.

    Raises:
        EngineError: there are fewer than two frames, or they are unusable.
    """
    if len(frames) < 2:
        raise EngineError(f"calibration needs at least two frames in a row, not {len(frames)}")
    preprocessor = Preprocessor(model.card)
    composed = compose_frames(preprocessor, frames, maps)
    trials = TrialEngine(model, config, composed)
    scale = _output_scale(trials, composed)
    ends = [preprocessor.input(composed[i]) for i in (0, -1)]
    weights = channel_weights(model.graph, ends, scale, _DRAWS)
    base = {
        name: Truncation(threshold=1.0, criterion=Criterion.ENERGY, weight=weights[name])
        for name in growth_points(model.graph)
        if name in weights and weights[name].any()
    }
    curve = _curve(trials, base, scale)
    factor = factor_for(curve, _MARGIN * config.max_error, _MARGIN * config.max_missed)
    if factor > 0:
        base = _refined(trials, base, scale, curve, factor)
        curve = _curve(trials, base, scale)
    return Calibration(base=base, curve=curve, output_scale=scale)


def _curve(trials: TrialEngine, base: Mapping[str, Truncation], scale: OutputScale) -> tuple[CurvePoint, ...]:
    curve = []
    for factor in (0.0, *_FACTORS):
        trial = trials.run(scaled(base, factor), scale)
        curve.append(
            CurvePoint(
                factor=factor,
                engine_error=trial.engine_error,
                missed_change=trial.missed_change,
                milliseconds=trial.milliseconds,
                active_share=trial.active_share,
            )
        )
        if trial.engine_error > _ENOUGH:
            break
    return tuple(curve)


def _refined(
    trials: TrialEngine,
    base: Mapping[str, Truncation],
    scale: OutputScale,
    curve: Sequence[CurvePoint],
    factor: float,
) -> dict[str, Truncation]:
    """One pass of coordinate search around a factor."""
    best = dict(base)
    current = trials.run(scaled(best, factor), scale)
    worth = _worth_of_error(curve, factor)
    for name in base:
        for change in (2.0, 0.5):
            tried = {**best, name: replace(best[name], threshold=best[name].threshold * change)}
            trial = trials.run(scaled(tried, factor), scale)
            if _cost(trial, worth) < _cost(current, worth):
                best, current = tried, trial
                break
    return best


def _worth_of_error(curve: Sequence[CurvePoint], factor: float) -> float:
    """- d log(time) / d log(error) along the curve, around a factor."""
    i = min(range(1, len(curve)), key=lambda k: abs(math.log(curve[k].factor / factor)))
    low, high = curve[max(1, i - 1)], curve[min(len(curve) - 1, i + 1)]
    time = _log_ratio(low.milliseconds, high.milliseconds)
    error = _log_ratio(high.engine_error, low.engine_error)
    return max(0.0, time / error) if error > 0 else 0.0


def _cost(trial: Trial, worth: float) -> float:
    return math.log(max(trial.milliseconds, _SMALLEST)) + worth * math.log(max(trial.engine_error, _SMALLEST))


def _output_scale(trials: TrialEngine, composed: Sequence[Image]) -> OutputScale:
    """The outputs' spread over three of the frames and photographs that have nothing to do with them."""
    size = (composed[0].shape[1], composed[0].shape[0])
    photographs = [np.asarray(cv2.resize(p, size), np.uint8) for p in load_photographs(Gallery.TEST)]
    own = [trials.exact[i] for i in sorted({0, len(composed) // 2, len(composed) - 1})]
    return OutputScale.of([*own, *(trials.dense(photograph) for photograph in photographs)])


def _log_ratio(value: float, limit: float) -> float:
    return math.log(max(value, _SMALLEST) / max(limit, _SMALLEST))
