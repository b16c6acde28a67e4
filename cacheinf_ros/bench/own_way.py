# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Runs one of this package's modes on a stream, as the nodes do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cacheinf_ros.bench.shots import Shot
from cacheinf_ros.bench.timing import measured
from cacheinf_ros.bench.trace import FrameTrace
from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine import Engine, EngineConfig, EngineResult
from cacheinf_ros.graph import Model
from cacheinf_ros.matching import MatchingConfig, MatchingStream, usable
from cacheinf_ros.mode import Mode
from cacheinf_ros.pipeline.frame_result import HELD
from cacheinf_ros.pipeline.promised_answers import PromisedAnswers


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSettings:
    """The configurations of one of the modes."""

    config: EngineConfig
    matching: MatchingConfig = field(default_factory=MatchingConfig)


class OwnWay:
    """Answers frames in one mode.

    Attributes:
        notes: the texts that diagnostics would show, by name.
        trace: how the last frame was answered.
        has_decoded: whether the time of the last answer includes decoding its outputs.
    """

    def __init__(self, model: Model, settings: OwnSettings) -> None:
        """Compile the model; in bounded mode, wait until its dense engines are prepared, which takes seconds."""
        self.notes: dict[str, str] = {}
        self.trace = FrameTrace(mode="")
        self.has_decoded = False
        self._config = settings.config
        self._engine = Engine(model, settings.config)
        self._matching = MatchingStream(usable(settings.matching, self._config.mode, self._engine.cost.dense_ms))
        self._promised: PromisedAnswers | None = None
        if self._config.mode is Mode.BOUNDED:
            self._promised = PromisedAnswers(model, self._engine, settings.config, self.notes.__setitem__)
            self._promised.wait()

    def __call__(self, shot: Shot) -> tuple[Any, Any]:
        """Return outputs by name and their motion; None and None where the last answer stands."""
        if self._promised is not None:
            return self._bounded(self._promised, shot)
        cache_map, matching_ms = None, 0.0
        if self._config.mode is not Mode.DENSE:
            cache_map, matching_ms = measured(self._matching.match, shot.image)
        result = self._engine.run(shot.image, cache_map)
        if cache_map is not None:
            self._matching.learn(self._matching.choice, result.active_share, result.stage_ms["compute"])
        self.trace = _trace(result, cache_map, matching_ms)
        return result.outputs, result.motion

    def finish(self) -> float:
        """Do the work that the last answer did not wait for, as nodes do when no frame waits; returns milliseconds."""
        return 0.0 if self._promised is None else measured(self._promised.finish)[1]

    def _bounded(self, promised: PromisedAnswers, shot: Shot) -> tuple[Any, Any]:
        stands, looking_ms = measured(promised.stands, shot.image)
        loss = promised.measured
        promise: dict[str, Any] = {
            "asked": self._config.max_loss, "measured": None if loss is None else loss.whole
        }  # fmt: skip
        if stands:
            self.trace = FrameTrace(mode=HELD, stage_ms={"prepare": looking_ms}, reuse_ratio=1.0, **promise)
            return None, None
        cache_map: CacheMap | None = None
        matching_ms = 0.0
        if promised.wants_maps:
            cache_map, matching_ms = measured(self._matching.match, shot.image)
        else:
            self._matching.reset("nobody wants maps")
            self._engine.reset()
        result = promised.run(shot.image, cache_map, matching_ms)
        self.has_decoded = promised.decoded is not None
        if cache_map is not None and not result.cached:  # else the next map would lead from an uncached frame
            self._matching.reset("the engine did not compute the frame")
            self._engine.reset()
        self.trace = _trace(result, cache_map, matching_ms, **promise)
        return result.outputs, result.motion


def _trace(result: EngineResult, cache_map: CacheMap | None, matching_ms: float, **promise: Any) -> FrameTrace:
    """Make the trace of a computed frame; ``promise``: the fields ``asked`` and ``measured``."""
    reuse_ratio = 0.0 if result.refreshed else result.reuse_ratio
    return FrameTrace(
        mode=result.mode.value,
        stage_ms={**({"match": matching_ms} if cache_map is not None else {}), **result.stage_ms},
        reuse_ratio=reuse_ratio,
        active_share=result.active_share,
        cache_map=cache_map if reuse_ratio else None,
        **promise,
    )
