# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Runs one stream's frames through the model: cache map and image in, result out."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.config import parse_size
from cacheinf_ros.engine import Decoded, Engine, EngineConfig, EngineResult, RemotePeer, Selection, decode
from cacheinf_ros.engine.decoders import are_told_by_classes_and_boxes
from cacheinf_ros.graph import Model, load_kept_model
from cacheinf_ros.mode import Mode
from cacheinf_ros.pipeline.calibrator import BackgroundCalibrator
from cacheinf_ros.pipeline.engine_trial import Way
from cacheinf_ros.pipeline.frame_result import HELD, FrameResult
from cacheinf_ros.pipeline.node_configs import ModelConfig
from cacheinf_ros.pipeline.pairing import Outcome
from cacheinf_ros.pipeline.promised_answers import PromisedAnswers

_log = logging.getLogger(__name__)


def open_model(config: ModelConfig) -> Model:
    """Load the configured model; raises :class:`ModelError` or :class:`ConfigError` where that is not possible."""
    weights = Path(config.weights) if config.weights else None
    return load_kept_model(config.model, weights=weights, input_size=parse_size(config.input_size))


class Runner:
    """A model with its engine and decoder. Not for use from several threads.

    Attributes:
        engine: the engine that runs the model.
        promised: chooses how bounded mode answers; None before its first frame.
        dense_ms: what a frame takes without a cache, as measured on this machine.
        selection: which of the model's answers are wanted, from the next frame on.
    """

    def __init__(
        self,
        model: Model,
        config: EngineConfig,
        note: Callable[[str, str], None],
        *,
        with_server: bool = False,
        cameras: int = 1,
    ) -> None:
        """Compile the model.

        Args:
            note: takes the name and text of a diagnostics entry.
            with_server: whether frames may be shared with a server.
            cameras: see :class:`Engine`.
        """
        self.name = model.name
        self._model = model
        self._input_size = model.input_size
        self._config = config
        self.selection = Selection()
        self._note = note
        self.engine = Engine(model, config, with_server=with_server, cameras=cameras)
        self.dense_ms = self.engine.cost.dense_ms
        self._calibrator: BackgroundCalibrator | None = None
        self.promised: PromisedAnswers | None = None
        self._last: FrameResult | None = None
        self._asked: tuple[tuple[int, int], Selection] | None = (
            None  # size of the last frame, and the selection of its answers
        )
        self._audits = self._broken = 0
        self._late_ms = 0.0  # work for the last answer that the next one has waited for
        note("cache_mb", f"{self.engine.cache_bytes / 1e6:.0f}")
        note("arena_mb", f"{self.engine.arena_bytes / 1e6:.0f}")

    @property
    def outputs_are_told(self) -> bool:
        """Whether classes and boxes say all that the model's outputs do."""
        return are_told_by_classes_and_boxes(self._model.card)

    def configure(self, config: EngineConfig) -> bool:
        """Use this configuration from the next frame on; returns whether the cache was dropped for it."""
        if config == self._config:
            return False
        changes_mode = config.mode is not self._config.mode
        self._config = config
        self._finish()
        if self.promised is not None:
            self.promised.configure(config)
        self.engine.configure(config)
        if changes_mode:
            self.reset()
        return changes_mode

    def warm_up(self) -> None:
        """Run a blank frame: the first takes ten times as long as others, and camera frames would be dropped."""
        self.engine.run(np.zeros((*self._input_size, 3), np.uint8), None)
        self.engine.reset()

    def close(self, *, waits: bool = True) -> None:
        """Stop the work in the background; ``waits``: wait some seconds until it has ended."""
        if self._calibrator is not None:
            self._calibrator.stop(waits=waits)
        if self.promised is not None:
            self.promised.close(waits=waits)

    def drop_cache(self) -> None:
        """Forget what the engine has cached; the last answer may stand."""
        self._finish()
        self.engine.reset()

    def reset(self, *, keeps_cache: bool = False) -> None:
        """Forget everything about earlier frames.

        Args:
            keeps_cache: but not what the engine has cached: somebody else has answered frames since, so that the last
                answer is too old to be held.
        """
        if keeps_cache:
            self._finish()  # the engine may still have to compute the last frame, which counts as cached already
        else:
            self.engine.reset()
        self._last = None
        if self.promised is not None:
            self.promised.lost(is_interrupted=keeps_cache)

    @property
    def wants_maps(self) -> bool:
        """Whether cache maps are of any use for the next frame."""
        return self.promised is None or self._config.mode is not Mode.BOUNDED or self.promised.wants_maps

    def infer(
        self,
        image: NDArray[np.uint8],
        cache_map: CacheMap | None,
        partner: RemotePeer | None = None,
        *,
        matching_ms: float = 0.0,
    ) -> FrameResult:
        """Run one frame, uint8 [height, width, 3], BGR; ``partner``: the server to share it with, if there is one.

        Where this raises, the cache may be half updated: call :meth:`reset`.

        Args:
            matching_ms: how long it took to make the map.
        """
        if self._config.mode is Mode.BOUNDED:
            return self._run_within_promise(image, cache_map, matching_ms, partner)
        return self._frame_result(self.engine.run(image, cache_map, partner), (image.shape[0], image.shape[1]))

    def _run_within_promise(
        self,
        image: NDArray[np.uint8],
        cache_map: CacheMap | None,
        matching_ms: float,
        partner: RemotePeer | None,
    ) -> FrameResult:
        if self.promised is None:
            self.promised = PromisedAnswers(self._model, self.engine, self._config, self._note)
        self._finish()
        finished_ms, self._late_ms = self._late_ms, 0.0
        promised = self.promised
        asked = (image.shape[0], image.shape[1]), self.selection
        if asked != self._asked:
            self._asked, self._last = asked, None
            promised.select(self.selection)
            promised.lost()
        promised.meet(has_server=partner is not None and partner.is_awaited)
        if promised.trial.wants_thresholds and self.engine.bounded.calibration is None:
            self._calibrate(image, cache_map)
        started = time.perf_counter()
        stands = promised.stands(image)
        looked = time.perf_counter()
        looked_ms = 1e3 * (looked - started)
        if stands and self._last is not None:
            stages = {**dict.fromkeys(self._last.engine.stage_ms, 0.0), "prepare": looked_ms, "judge": finished_ms}
            unchanged = replace(self._last.engine, reuse_ratio=1.0, active_share=0.0, stage_ms=stages, where="local")
            return replace(self._last, mode=HELD, outcome=Outcome.UNTOUCHED, engine=unchanged)
        result = promised.run(image, cache_map, matching_ms, partner)
        # the answer also waited for being read, and in bursts for an engine on trial that goes first
        beside_ms = 1e3 * (time.perf_counter() - looked) - result.total_ms - promised.decoding_ms
        stages = {
            **result.stage_ms,
            "prepare": looked_ms + result.stage_ms.get("prepare", 0.0),
            "judge": finished_ms + max(0.0, beside_ms),
        }
        self._last = self._frame_result(
            replace(result, stage_ms=stages), asked[0], promised.decoded, promised.decoding_ms
        )
        return self._last

    def audit_if_due(self, *, idle: bool) -> float:
        """Judge the last answer, and compare the engine's cache with a dense frame, where each is due.

        The last answer is judged when the node is idle, or else before the next frame. The comparison runs when it is
        due and the node is idle, or when it is long overdue.

        Returns:
            the milliseconds of this work that no result will state.
        """
        started, late_ms = time.perf_counter(), self._late_ms
        self._audit_if_due(idle=idle)
        return 1e3 * (time.perf_counter() - started) + late_ms - self._late_ms

    def _audit_if_due(self, *, idle: bool) -> None:
        if idle:
            self._finish()
            self._late_ms = 0.0  # no answer waits for it
        if self._config.mode is not Mode.BOUNDED or (
            self.promised is not None and self.promised.trial.way is Way.DENSE
        ):
            return
        if not (self.engine.bounded.audit_due if idle else self.engine.bounded.audit_overdue):
            return
        self._finish()
        if self._last is not None:  # the audit computes into the maps that these outputs may be views of
            outputs = {name: value.copy() for name, value in self._last.engine.outputs.items()}
            self._last = replace(self._last, engine=replace(self._last.engine, outputs=outputs))
        audit = self.engine.bounded.audit()
        if audit is None:
            return
        self._audits += 1
        self._broken += not audit.kept
        self._note("engine_error", f"{audit.engine_error:.4f}")
        self._note("missed_change", f"{audit.missed_change:.3f}")
        if audit.motion_error is not None:
            self._note("motion_error", f"{audit.motion_error:.4f}")
            self._note("room_for_motion", f"{audit.room_for_motion:.3f}")
        self._note("tightness", f"{audit.tightness:.3f}")
        self._note("audits", f"{self._audits}, promise broken in {self._broken}")

    def _finish(self) -> None:
        """Have bounded mode do the work that its last answer did not wait for, before anything changes."""
        if self.promised is not None:
            started = time.perf_counter()
            self.promised.finish()
            self._late_ms += 1e3 * (time.perf_counter() - started)

    def _calibrate(self, image: NDArray[np.uint8], cache_map: CacheMap | None) -> None:
        if self._calibrator is None:
            self._calibrator = BackgroundCalibrator(self._model, self._config, self.engine.program.caching)
            _log.info("the engine holds no changes back until it is calibrated on some frames")
        calibration = self._calibrator.feed(image, cache_map)
        self._note("calibration", self._calibrator.state)
        if calibration is not None:
            self.engine.bounded.use(calibration)
            if self.promised is not None:
                self.promised.engine_changed()
            _log.info("delta thresholds are calibrated (%s)", self._calibrator.state)

    def failed(self, error: str) -> FrameResult:
        """Return the result of a frame that could not be run."""
        return FrameResult.failed(self.name, self._config.mode, error)

    def _frame_result(
        self,
        result: EngineResult,
        image_size: tuple[int, int],
        decoded: Decoded | None = None,
        decode_ms: float = 0.0,
    ) -> FrameResult:
        """Make the result of a frame.

        Args:
            decoded: the decoded answer, where it is known already.
            decode_ms: how long decoding took in that case, in milliseconds.
        """
        if decoded is None:
            started = time.perf_counter()
            decoded = decode(result.outputs, self._model.card, image_size, result.motion, self.selection)
            decode_ms = 1e3 * (time.perf_counter() - started)
        return FrameResult(
            model=self.name,
            mode=result.mode.value,
            outcome=Outcome.CACHED if result.cached else Outcome.UNTOUCHED,
            engine=replace(result, stage_ms={**result.stage_ms, "decode": decode_ms}),
            input_size=self._input_size,
            decoded=decoded,
        )
