# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Matches frame by frame, and numbers and times the maps."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.matching import Choice, MatchingConfig, MatchingStream, tolerates_less, usable
from cacheinf_ros.mode import Mode
from cacheinf_ros.pipeline.map_chain import MapSequencer, MapUpdate

_MS_PER_S = 1e3
_REMEMBERED = 16  # frames that may be between matching and computing


UNWANTED = "frames are computed without the cache, which is faster"


class MapProducer:
    """A matching stream whose configuration may change between frames, with its maps numbered and timed.

    Where the model runs in the same process, matchers are chosen by the time that it really takes.
    """

    def __init__(self, config: MatchingConfig) -> None:
        self._asked: tuple[MatchingConfig, Mode, float] | None = None
        self._config = config
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
        """Return the map of the next frame.

        Args:
            image: uint8 [height, width, 3], BGR.
            stamp_ns: the stamp of the frame.
            config: the configuration, which applies from this frame on.
            mode: the mode of the engine that the map is for; where that is not known, exact, whose maps all can use.
            dense_ms: the time of computing everything, 0 where that is not known; the configuration's takes precedence.
        """
        if (config, mode, dense_ms) != self._asked:
            self._follow(usable(config, mode, dense_ms))
            self._asked = config, mode, dense_ms
        start = time.perf_counter()
        link = self._linker.link(image, stamp_ns)
        elapsed_ms = (time.perf_counter() - start) * _MS_PER_S
        self._choices[stamp_ns] = self._stream.choice
        while len(self._choices) > _REMEMBERED:
            del self._choices[next(iter(self._choices))]
        return replace(link, matcher=self._config.matcher.value, matching_ms=elapsed_ms)

    def _follow(self, config: MatchingConfig) -> None:
        if config == self._config:
            return
        if self._asked is not None and tolerates_less(config, self._config):
            # a frame that was computed completely, for want of a map, differs from the reference by what was tolerated
            # then: blocks equal to the reference would now be answered from the frame's
            self._linker.reset("less is tolerated than before")
        self._stream.reconfigure(config)
        self._config = config

    def learn(self, stamp_ns: int, computed_share: float, computing_ms: float) -> None:
        """Learn what computing a frame took, by its stamp; see :meth:`MatchingStream.learn`. Thread-safe."""
        self._stream.learn(self._choices.get(stamp_ns), computed_share, computing_ms)

    def unwanted(self, stamp_ns: int, image_size: tuple[int, int]) -> MapUpdate:
        """Return an empty map for a frame that needs none, and drop the reference: the next wanted map begins anew."""
        self._linker.reset(UNWANTED)
        return self._linker.unreadable(stamp_ns, image_size, UNWANTED)

    def unreadable(self, stamp_ns: int, image_size: tuple[int, int], reason: str) -> MapUpdate:
        """Return the map of a frame that cannot be read."""
        return self._linker.unreadable(stamp_ns, image_size, reason)
