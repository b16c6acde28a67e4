# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Matching frame by frame, with maps that are numbered and timed."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.matching import Choice, MatchingConfig, MatchingStream, usable
from cacheinf_ros.mode import Mode
from cacheinf_ros.pipeline.map_chain import MapSequencer, MapUpdate

_MS_PER_S = 1e3
_REMEMBERED = 16  # frames between matching and computing, at most


UNWANTED = "frames are computed without the cache, which is faster"


class MapProducer:
    """A matching stream whose configuration may change between frames, with its maps numbered and timed.

    Where the model runs in the same process, the choice of matchers goes by how long it really takes.
    """

    def __init__(self, config: MatchingConfig) -> None:
        self._asked = config, 0.0
        self._stream = MatchingStream(config)
        self._linker = MapSequencer(self._stream, secrets.token_hex(4))
        self._choices: dict[int, Choice | None] = {}  # by stamp, of the latest frames

    def link(
        self,
        image: NDArray[np.uint8],
        stamp_ns: int,
        config: MatchingConfig,
        *,
        mode: Mode = Mode.EXACT,
        dense_ms: float = 0.0,
    ) -> MapUpdate:
        """The map of the next frame.

        Args:
            image: uint8 [height, width, 3], BGR.
            stamp_ns: of the frame.
            config: a new one holds from this frame on.
            mode: of the engine that the map is for; where nobody knows, what every mode can follow.
            dense_ms: what computing everything takes, 0 where that is not known; the configuration's goes first.
        """
        config = usable(config, mode)
        if (config, dense_ms) != self._asked:
            # not checked like what a user sets: it is measured
            self._stream.reconfigure(config if config.dense_ms else config.model_copy(update={"dense_ms": dense_ms}))
            self._asked = config, dense_ms
        start = time.perf_counter()
        link = self._linker.link(image, stamp_ns)
        elapsed_ms = (time.perf_counter() - start) * _MS_PER_S
        self._choices[stamp_ns] = self._stream.choice
        while len(self._choices) > _REMEMBERED:
            del self._choices[next(iter(self._choices))]
        return replace(link, matcher=config.matcher.value, matching_ms=elapsed_ms)

    def learn(self, stamp_ns: int, computed_share: float, computing_ms: float) -> None:
        """What computing a frame took, by its stamp; see :meth:`MatchingStream.learn`. From any thread."""
        self._stream.learn(self._choices.get(stamp_ns), computed_share, computing_ms)

    def unwanted(self, stamp_ns: int, image_size: tuple[int, int]) -> MapUpdate:
        """The map of a frame of which nobody wants one; the next that is wanted begins anew."""
        self._linker.reset(UNWANTED)
        return self._linker.unreadable(stamp_ns, image_size, UNWANTED)

    def unreadable(self, stamp_ns: int, image_size: tuple[int, int], reason: str) -> MapUpdate:
        """The map of a frame that cannot be read."""
        return self._linker.unreadable(stamp_ns, image_size, reason)
