# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Runs one of this package's modes on a stream, doing the work that the node ``cached_inference`` does."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cacheinf_ros.bench.kept_answers import KeptAnswer
from cacheinf_ros.bench.shots import Image, Shot
from cacheinf_ros.bench.timing import measured, timed
from cacheinf_ros.bench.trace import FrameTrace
from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine import EngineConfig, mode_of_maps
from cacheinf_ros.engine.decisions import Task
from cacheinf_ros.graph import Model
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.mode import Mode
from cacheinf_ros.pipeline import FramePairing, MapUpdate, Outcome
from cacheinf_ros.pipeline.frame_result import HELD, FrameResult
from cacheinf_ros.pipeline.map_producer import MapProducer
from cacheinf_ros.pipeline.runner import Runner


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSettings:
    """The configurations of one of the modes."""

    config: EngineConfig
    matching: MatchingConfig = field(default_factory=MatchingConfig)


class OwnWay:
    """Answers frames in one mode, by the parts that nodes are made of, each frame before the next one comes.

    As in the nodes, a frame is matched before anybody knows whether the last answer stands for it, in every mode: a
    held frame costs its matching too wherever maps are wanted, and its map is folded into that of the next frame.

    Attributes:
        notes: the texts that diagnostics would show, by name.
        trace: how the last frame was answered.
    """

    def __init__(self, model: Model, settings: OwnSettings, task: Task[Any]) -> None:
        """Compile the model; in bounded mode, wait until its dense engines are prepared, which takes seconds.

        Args:
            task: reads what outputs decide.
        """
        self.notes: dict[str, str] = {}
        self.trace = FrameTrace(mode="")
        self._settings = settings
        self._task = task
        self._runner = Runner(model, settings.config, self.notes.__setitem__)
        self._producer = MapProducer(settings.matching)
        self._pairing: FramePairing[Image] = FramePairing(map_timeout_ns=0)
        self._stamp_ns = 0  # a number of its own for each frame: the maps are told apart by it
        self._decision: Any = None
        self._runner.warm_up()
        if settings.config.mode is Mode.BOUNDED:
            self._runner.infer(np.zeros((*model.input_size, 3), np.uint8), None)  # begins to prepare them
            self._await_background()
            self._runner.reset()

    def answer(self, shot: Shot) -> tuple[KeptAnswer, float]:
        """Answer a frame, then do the work behind the answer, as nodes do while no frame waits.

        Returns:
            the answer, and the milliseconds of the work behind it.
        """
        (result, cache_map), took_ms = timed(self._infer, shot.image)
        if result.mode != HELD:
            engine, size = result.engine, (shot.image.shape[0], shot.image.shape[1])
            self._decision = self._task.read(engine.outputs, size, engine.motion)
        trace = self._traced(result, cache_map)
        _, behind_ms = measured(self._runner.audit_if_due, idle=True)
        self.trace = replace(trace, busy_ms=took_ms + behind_ms)
        self._await_background()
        return KeptAnswer(decision=self._decision, took_ms=took_ms), behind_ms

    def _infer(self, image: Image) -> tuple[FrameResult, CacheMap | None]:
        """Return the result that would be published, and the map from what the cache held to the frame."""
        self._stamp_ns += 1
        update = self._matched(image)
        self._pairing.add_frame(image, self._stamp_ns, self._stamp_ns)
        self._pairing.add_map(update)
        paired = self._pairing.take(self._stamp_ns)
        assert paired is not None
        cache_map = paired.path.folded((image.shape[0], image.shape[1])).cache_map
        if cache_map is None:
            self._runner.drop_cache()
        result = self._runner.infer(image, cache_map, matching_ms=update.matching_ms)
        self._pairing.note(paired, result.outcome)
        if result.outcome is Outcome.CACHED and result.engine.tells_savings:
            self._producer.learn(self._stamp_ns, result.engine.active_share, result.engine.stage_ms["compute"])
        return result.after({"match": update.matching_ms}), cache_map

    def _matched(self, image: Image) -> MapUpdate:
        if not self._runner.wants_maps:
            return self._producer.unwanted(self._stamp_ns, (image.shape[0], image.shape[1]))
        return self._producer.link(
            image,
            self._stamp_ns,
            self._settings.matching,
            mode=mode_of_maps(self._runner.engine, self._settings.config.mode),
            dense_ms=self._runner.dense_ms,
        )

    def _traced(self, result: FrameResult, cache_map: CacheMap | None) -> FrameTrace:
        engine, promised = result.engine, self._runner.promised
        is_held = result.mode == HELD
        loss = None if promised is None else promised.measured
        return FrameTrace(
            mode=result.mode,
            stage_ms=engine.stage_ms,
            reuse_ratio=engine.reuse_ratio,
            active_share=engine.active_share,
            cache_map=None if is_held or not engine.reuse_ratio else cache_map,
            asked=None if promised is None else self._settings.config.max_loss,
            measured=None if loss is None else loss.whole,
        )

    def _await_background(self) -> None:
        """Wait for engines that bounded mode prepares beside the frames: the ways that run next would be slowed by it.

        Users pay for that once, in the first minutes.
        """
        if self._runner.promised is not None:
            self._runner.promised.wait()
