"""The engine: compile once, then ``run(frame, cache map) -> result``."""

from __future__ import annotations

import logging
import time

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine.config import EngineConfig, Mode
from cacheinf_ros.engine.kernels import choose_kernels
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.engine.program import Program
from cacheinf_ros.engine.result import EngineResult
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import Model

_log = logging.getLogger(__name__)


class Engine:
    """A model with its cached feature maps. Not thread-safe; two engines are independent.

    Attributes:
        mode: what is taken from the cache; may be set between frames.
    """

    def __init__(self, model: Model, config: EngineConfig) -> None:
        kernels = choose_kernels(config.device, config.threads)
        self.mode = config.mode
        self.model = model
        self.kernel_name = kernels.name
        self._preprocessor = Preprocessor(model.card)
        with torch.inference_mode():
            self._program = Program(model.graph, kernels)
        self._outputs: dict[str, NDArray[np.generic]] | None = None  # of the cache as it stands; None: it is empty
        if model.graph.unknown:
            _log.warning(
                "model %s: these operators run densely on every frame: %s", model.name, ", ".join(model.graph.unknown)
            )

    @property
    def cache_bytes(self) -> int:
        """Memory of all cached feature maps."""
        return self._program.cache_bytes

    def reset(self) -> None:
        """Forget the cache: the next frame is computed completely."""
        self._outputs = None

    @torch.inference_mode()
    def run(self, image: NDArray[np.uint8], cache_map: CacheMap | None) -> EngineResult:
        """Compute the outputs for a frame.

        Args:
            image: uint8 [height, width, 3], BGR.
            cache_map: what of the frame is reusable, relative to the frame composed by the runs before;
                None: nothing.

        Raises:
            EngineError: the frame or its map is unusable; the cache is then empty.
        """
        started = time.perf_counter_ns()
        cached, self._outputs = self._outputs, None  # whatever fails below leaves no half-updated cache
        resized = self._preprocessor.resize(image)
        mode = self._activate(image, cache_map if cached is not None else None)
        self._write_input(resized)
        prepared = time.perf_counter_ns()
        if cached is None or self._program.plan.input.count or mode is Mode.DENSE or self._moved:
            cached = {name: value.cpu().numpy() for name, value in self._program.run().items()}
        self._outputs = cached
        computed = time.perf_counter_ns()
        return EngineResult(
            outputs=dict(cached),
            mode=mode,
            reuse_ratio=0.0 if mode is Mode.DENSE or cache_map is None else cache_map.reuse_ratio,
            active_share=self._program.active_share,
            stage_ms={"prepare": (prepared - started) / 1e6, "compute": (computed - prepared) / 1e6},
        )

    def _activate(self, image: NDArray[np.uint8], cache_map: CacheMap | None) -> Mode:
        """Fill the active sets and move the cache; returns the mode that this frame is really computed in."""
        self._moved = False
        plan, mode = self._program.plan, self.mode
        if cache_map is not None and cache_map.image_size != image.shape[:2]:
            raise EngineError(f"the cache map is for {cache_map.image_size} pixels, the frame has {image.shape[:2]}")
        if mode is Mode.DENSE or cache_map is None or not len(cache_map.rectangles):
            plan.fill()
            return Mode.DENSE
        shift = cache_map.motion.shift
        if shift is None or (mode is Mode.EXACT and not cache_map.motion.is_none):
            plan.fill()  # the picture moved in a way that this mode cannot follow
            return Mode.DENSE
        self._moved = not cache_map.motion.is_none
        if self._moved:
            self._program.move(*self._preprocessor.scale_shift(shift, cache_map.image_size))
        np.copyto(plan.input.mask, self._preprocessor.active_mask(cache_map.active_mask))
        plan.input.use_mask()
        plan.spread(outside_is_active=self._moved)
        return mode

    def _write_input(self, resized: NDArray[np.uint8]) -> None:
        rows, target = self._program.plan.input.rows, self._program.input.rows
        if target.device.type == "cpu":
            self._preprocessor.normalise(resized, rows, target.numpy())
            return
        host = np.empty((target.shape[0], 3), np.float32)
        self._preprocessor.normalise(resized, rows, host)
        target[torch.from_numpy(rows).long().to(target.device)] = torch.from_numpy(host[rows]).to(target.device)
