# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Finds, on a few frames of the user's stream, which changes of which tensors may be held back.

1. Candidates are the tensors from which a change would spread (candidates.py); comparing everywhere is tried, too.
2. Changes of different tensors are made comparable: by the error that it costs to hold them back (sensitivity.py), or
   by the tensors' standard deviations; each pixel by itself, or pooled with its neighbours (bases.py).
3. Trials over the frames with growing thresholds show error and predicted time (curve.py). The variant that takes the
   least time where it keeps the promise is chosen: the first, unless another is clearly better.
4. At that point each tensor's threshold is doubled and halved; a change that lowers the time by more than its error is
   worth along the curve is kept (threshold_search.py). Then the curve is measured.

``max_error`` and ``max_missed`` choose a point of the curve, also later, while the engine runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine.bounded.bases import possible_bases, standard_deviations
from cacheinf_ros.engine.bounded.candidates import propagation_points
from cacheinf_ros.engine.bounded.composed_frames import compose_frames
from cacheinf_ros.engine.bounded.curve import CurvePoint, Promise, factor_for, scaled
from cacheinf_ros.engine.bounded.sensitivity import channel_weights
from cacheinf_ros.engine.bounded.threshold_search import ThresholdSearch
from cacheinf_ros.engine.bounded.trial import TrialEngine
from cacheinf_ros.engine.caching import EVERYTHING, Caching
from cacheinf_ros.engine.delta_threshold import DeltaThreshold
from cacheinf_ros.engine.engine_config import EngineConfig
from cacheinf_ros.engine.execution.torch_threads import torch_threads
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.engine.quality import OutputScale
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import Model
from cacheinf_ros.sources.scenes import Gallery, load_photographs

Image = NDArray[np.uint8]
_MARGIN = 0.8  # share of the promise to stay below: the stream will differ from the frames of the calibration


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibration:
    """Thresholds, with the errors and times that they lead to.

    Attributes:
        base: the thresholds by tensor, at factor 1.
        curve: errors and times by growing factor, starting with 0, which is exact.
        output_scale: the scale of the errors.
    """

    base: Mapping[str, DeltaThreshold]
    curve: tuple[CurvePoint, ...]
    output_scale: OutputScale

    def scale_for(self, max_error: float, max_missed: float) -> float:
        """Return the factor that saves most time while both errors stay below these, less a margin; 0: none does.

        Between two points of the curve that keep and break the promise, the factor is interpolated.
        """
        return factor_for(self.curve, _promise(max_error, max_missed))

    def thresholds(self, factor: float) -> dict[str, DeltaThreshold]:
        """Return the thresholds by tensor for a factor; none at 0."""
        return scaled(self.base, factor)


def _promise(max_error: float, max_missed: float) -> Promise:
    return Promise(max_error=_MARGIN * max_error, max_missed=_MARGIN * max_missed)


def calibrate(
    model: Model,
    frames: Sequence[Image],
    maps: Sequence[CacheMap | None] | None,
    config: EngineConfig,
    caching: Caching = EVERYTHING,
    between: Callable[[], None] = lambda: None,
    measured: Callable[[], None] | None = None,
) -> Calibration:
    """Find thresholds for a model on frames in their order, in an engine that is made for it.

    Args:
        maps: what of each frame is reusable, as the engine will be told; None: whatever did not change at all.
        caching: what the engine that will use the thresholds keeps between frames.
        between: called between frames; what it raises ends the calibration.
        measured: called once the operators' times are measured, which other work must not distort; what comes after
            runs in threads that are started then, and inherit this thread's priority.

    Raises:
        EngineError: there are fewer than two frames, or they are unusable.
    """
    if len(frames) < 2:
        raise EngineError(f"calibration needs at least two frames in a row, not {len(frames)}")
    preprocessor = Preprocessor(model.card)
    composed = compose_frames(preprocessor, frames, maps)
    microseconds = None
    if measured is not None:  # operators are measured on the first frame, by an engine that ends with its threads
        microseconds = TrialEngine(model, config, composed[:1], caching=caching, between=between).microseconds
        measured()
    trials = TrialEngine(model, config, composed, caching=caching, between=between, microseconds=microseconds)
    graph, scale = model.graph, _output_scale(trials, composed)
    ends = [preprocessor.input(composed[i]) for i in (0, -1)]
    with torch_threads(config.threads):
        weights = channel_weights(graph, ends, scale, between=between)
        spreads = standard_deviations(graph, ends)
    search = ThresholdSearch(trials, scale, _promise(config.max_error, config.max_missed))
    base = search.best(possible_bases(graph, trials.computed, weights, spreads))
    base = search.refined(base, [name for name in propagation_points(graph) if name in base], pointwise=graph.input)
    return Calibration(base=base, curve=search.curve(base), output_scale=scale)


def _output_scale(trials: TrialEngine, composed: Sequence[Image]) -> OutputScale:
    """Measure the outputs' deviation over three of the frames and photographs that have nothing to do with them."""
    size = (composed[0].shape[1], composed[0].shape[0])
    photographs = [np.asarray(cv2.resize(p, size), np.uint8) for p in load_photographs(Gallery.TEST)]
    own = [trials.exact[i] for i in sorted({0, len(composed) // 2, len(composed) - 1})]
    return OutputScale.of([*own, *(trials.dense(photograph) for photograph in photographs)])
