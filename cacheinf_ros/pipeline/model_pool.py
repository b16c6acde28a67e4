# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Models that several streams of one process run, each loaded only once."""

from __future__ import annotations

import threading
from weakref import WeakValueDictionary

from cacheinf_ros.graph import Model
from cacheinf_ros.pipeline.node_configs import ModelConfig
from cacheinf_ros.pipeline.runner import open_model


class ModelPool:
    """Keeps a model as long as any stream runs it; engines of one model share its weights.

    Attributes:
        compiling: held while an engine is made: one at a time, because compiling takes memory, and processors.
    """

    def __init__(self) -> None:
        self.compiling = threading.Lock()
        self._lock = threading.Lock()
        self._models: WeakValueDictionary[ModelConfig, Model] = WeakValueDictionary()

    def open(self, config: ModelConfig) -> Model:
        """Return the configured model; raises what :func:`open_model` raises."""
        with self._lock:
            model = self._models.get(config)
            if model is None:
                model = self._models[config] = open_model(config)
            return model
