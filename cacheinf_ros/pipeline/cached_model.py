# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A model that sees only some of the frames, with the chain of cache maps that leads from what its cache holds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine import EngineConfig, RemotePeer
from cacheinf_ros.pipeline.frame_result import FrameResult
from cacheinf_ros.pipeline.map_chain import CacheChain, MapUpdate
from cacheinf_ros.pipeline.new_beginning import begins_anew
from cacheinf_ros.pipeline.pairing import Outcome
from cacheinf_ros.pipeline.runner import Runner


class CachedModel:
    """Runs a model on frames whose cache maps it has been given. Not for use from several threads.

    Attributes:
        chain: the cache maps, those of frames that the model is not shown included.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.chain = CacheChain()
        self._stamp_ns: int | None = None  # of the frame before

    @property
    def runner(self) -> Runner:
        """The runner of the model."""
        return self._runner

    def add(self, link: MapUpdate) -> None:
        """Add the cache map of a frame that the model may be shown."""
        self.chain.add(link)

    def share(self, *, wanted: bool) -> bool:
        """Share frames with a server from now on, or stop; returns whether that is possible: here only stopping is."""
        return not wanted

    def run(self, image: NDArray[np.uint8], stamp_ns: int, config: EngineConfig) -> FrameResult:
        """Run a frame whose map was added; where this raises, the cache counts as empty."""
        return self._run(image, stamp_ns, config, None)

    def _run(
        self, image: NDArray[np.uint8], stamp_ns: int, config: EngineConfig, partner: RemotePeer | None
    ) -> FrameResult:
        """Run a frame; ``partner``: the server to share it with, or None."""
        starts_over = self._stamp_ns is not None and begins_anew(self._stamp_ns, stamp_ns)
        self._stamp_ns = stamp_ns
        if starts_over:
            self.runner.reset()  # no answer of before stands, and no burst goes on across the jump
        if self.runner.configure(config) or starts_over:
            self.chain.invalidate()
        path = self.chain.path(stamp_ns)
        fold = path.folded((image.shape[0], image.shape[1]))
        try:
            result = self.runner.infer(image, fold.cache_map, partner)
        except BaseException:
            self.chain.invalidate()
            raise
        if result.outcome is Outcome.CACHED:
            self.chain.mark_cached(stamp_ns, path)
        elif result.outcome is Outcome.LOST:
            self.chain.invalidate()
        return result

    def forget_from(self, stamp_ns: int) -> None:
        """Invalidate the cache, because time went back to ``stamp_ns``; later maps belong to frames of before."""
        self.chain.invalidate_from(stamp_ns)

    def forget(self) -> None:
        """Forget all earlier frames: the next one is computed as the first."""
        self.chain.invalidate()
        self.runner.reset()

    def audit_if_due(self, *, idle: bool) -> None:
        """Check bounded mode's promise; see :meth:`Runner.audit_if_due`."""
        self.runner.audit_if_due(idle=idle)

    def close(self) -> None:
        """Release the model, which is not used any more, without waiting for its work in the background to end."""
        self.runner.close(waits=False)
