"""One stream's way through the model: cache map and image in, result out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.config import parse_size
from cacheinf_ros.engine import Engine, EngineConfig, EngineResult, decode
from cacheinf_ros.graph import Model, load_model
from cacheinf_ros.nodes.configs import ModelConfig
from cacheinf_ros.nodes.conversions import FrameResult


def open_model(config: ModelConfig) -> Model:
    """Load the configured model; :class:`ModelError` or :class:`ConfigError` where that cannot be done."""
    weights = Path(config.weights) if config.weights else None
    return load_model(config.model, weights=weights, input_size=parse_size(config.input_size))


class Runner:
    """A model with its engine and decoder. Not for use from several threads."""

    def __init__(self, model: Model, config: EngineConfig) -> None:
        self.name = model.name
        self._model = model
        self._config = config
        self._engine = Engine(model, config)

    def configure(self, config: EngineConfig) -> bool:
        """Use this configuration from the next frame on. Returns whether the cache was dropped for it."""
        if config == self._config:
            return False
        self._config = config
        self._engine.mode = config.mode
        self._engine.reset()
        return True

    def reset(self) -> None:
        """Drop the cache."""
        self._engine.reset()

    def run(self, image: NDArray[np.uint8], cache_map: CacheMap | None) -> FrameResult:
        """Run one frame; uint8 [height, width, 3], BGR.

        Where this raises, the cache may be half updated: call :meth:`reset`.
        """
        result = self._engine.run(image, cache_map)
        return self._frame_result(result, (image.shape[0], image.shape[1]))

    def failed(self, error: str) -> FrameResult:
        """The result of a frame that could not be run."""
        return FrameResult(model=self.name, mode=self._config.mode.value, error=error)

    def _frame_result(self, result: EngineResult, image_size: tuple[int, int]) -> FrameResult:
        return FrameResult(
            model=self.name,
            mode=result.mode.value,
            reuse_ratio=result.reuse_ratio,
            active_share=result.active_share,
            stage_ms=dict(result.stage_ms),
            outputs=result.outputs,
            decoded=decode(result.outputs, self._model.card, image_size),
        )
