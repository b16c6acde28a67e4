# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A model that is not shown every frame, with the chain of cache maps from what its cache holds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine import EngineConfig, RemotePeer
from cacheinf_ros.pipeline.frame_result import FrameResult
from cacheinf_ros.pipeline.map_chain import CacheChain, MapUpdate
from cacheinf_ros.pipeline.pairing import Outcome
from cacheinf_ros.pipeline.runner import Runner


class CachedModel:
    """Runs a model on frames whose maps it collects. Not for use from several threads.

    Attributes:
        chain: of maps; the maps of frames that the model is not shown belong in it too.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.chain = CacheChain()

    @property
    def runner(self) -> Runner:
        """What runs the model."""
        return self._runner

    def add(self, link: MapUpdate) -> None:
        """The map of a frame that the model may be shown."""
        self.chain.add(link)

    def share(self, *, wanted: bool) -> bool:
        """Have frames shared with a server from now on, or not. Returns whether that can be."""
        return not wanted

    def run(self, image: NDArray[np.uint8], stamp_ns: int, config: EngineConfig) -> FrameResult:
        """Run a frame whose map was added; where this raises, the cache is taken to hold nothing."""
        return self._run(image, stamp_ns, config, None)

    def _run(
        self, image: NDArray[np.uint8], stamp_ns: int, config: EngineConfig, partner: RemotePeer | None
    ) -> FrameResult:
        """``partner``: to share the frame with."""
        if self.runner.configure(config):
            self.chain.invalidate()
        fold = self.chain.path(stamp_ns).folded((image.shape[0], image.shape[1]))
        try:
            result = self.runner.infer(image, fold.cache_map, partner)
        except BaseException:
            self.chain.invalidate()
            raise
        if result.outcome is Outcome.CACHED:
            self.chain.mark_cached(stamp_ns)
        elif result.outcome is Outcome.LOST:
            self.chain.invalidate()
        return result

    def forget_from(self, stamp_ns: int) -> None:
        """Time went back: what is cached belongs to frames of before."""
        self.chain.invalidate_from(stamp_ns)

    def audit_if_due(self, *, idle: bool) -> None:
        """Check bounded mode's promise, see :meth:`Runner.audit_if_due`."""
        self.runner.audit_if_due(idle=idle)

    def close(self) -> None:
        """It is not used any more."""
        self.runner.close()
