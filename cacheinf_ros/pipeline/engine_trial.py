# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tries the engine, with its cache or with a server, in bursts: whether it computes the frames between them.

The engine may beat a dense backend in two ways: it reuses what it has cached, and has a server compute a part of each
frame. Reuse loses something, a server alone nothing. Where both together do not keep the promise, complete frames with
the server are tried next. A trial adds the engine's time to each dense frame: it ends early where it is hopeless, and
the next one waits until that time is a small share of all computing.

What reuse loses shows only where something moves: a trial before a picture at rest says nothing about later motion. So
the engine is chosen only after a burst in which enough moved, and for frames that change no more than those did.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from statistics import median

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine import Engine, EngineResult, RemotePeer
from cacheinf_ros.engine.decisions import FEWEST_DECISIONS, Loss

SHARE = 0.5
"""The share of the promise that the engine may use up; holding answers has the rest."""
_CLEARLY = 0.95  # of the dense time: the limit below which the engine is worth its matching and memory
_HOPELESS = 2.0  # times the dense time: beyond it no result of a longer trial could help
_ENOUGH = 3  # timed frames that show that it is hopeless
_FAR_OFF = 9  # frames in a row that change more than any on trial: the engine waits for another trial
_BETWEEN = 9  # frames between bursts that show that the engine is slower there than a trial said
_FAILED_MS = 1000.0  # the least time that a trial counts with in which the engine failed
_COST = 0.02  # the next trial waits until the last is this share of the computing time; halved each time


def goes_first(frame: int) -> bool:
    """Tell whether the engine on trial computes this frame of a burst before the dense backend does.

    Only who goes first is timed: the second finds threads awake and weights in the processor's cache.
    """
    return frame // 2 % 2 == 1


class Way(Enum):
    """The ways in which frames are computed whose answer does not stand."""

    DENSE = "dense"
    CACHED = "cached"


class EngineTrial:
    """Judges the cached engine against the dense backend by the clock. For one thread at a time.

    Attributes:
        way: how frames are computed between bursts.
        is_on: whether the engine runs beside the dense backends in this burst, or in the next one.
        wants_thresholds: whether delta thresholds might make the engine worth it: reuse loses little, but the engine is
            not faster than a dense backend.
    """

    def __init__(self, *, has_server: bool = False) -> None:
        """Begin with a trial; ``has_server``: whether a server may compute a part of frames."""
        self.way = Way.DENSE
        self.is_on = True
        self.wants_thresholds = False
        self._reuses = True
        self._has_server = has_server
        self._is_interrupted = False  # whether frames of the burst were computed in another way
        self._engine_ms: list[float] = []  # of the frames of this trial in which it went first
        self._dense_ms: list[float] = []  # of those in which the dense backend did
        self._spent_ms = 0.0  # by the engine in this trial
        self._tried_change = 0.0  # largest share of a picture that was not reusable, in this trial
        self._known_change = 0.0  # largest such share of all trials since the engine was chosen
        self._far_off = 0  # consecutive frames that changed more than that
        self._answered_ms: deque[float] = deque(maxlen=_BETWEEN)  # between bursts, as long as it was chosen
        self._judged_ms = (0.0, 0.0)  # time of the last trial, and of a dense frame at that time
        self._wait_ms = 0.0  # computing time until the engine is tried again
        self._share = _COST

    @property
    def reuses(self) -> bool:
        """Whether the engine is to reuse anything; if not, cache maps are of no use to it."""
        return self._reuses

    def start_anew(self) -> None:
        """Try the engine in the next burst, because it has changed."""
        self.wants_thresholds, self.is_on, self._reuses = False, True, True
        self._judged_ms = (0.0, 0.0)
        self._begin()
        self._wait_ms, self._share = 0.0, _COST

    @property
    def is_judged(self) -> bool:
        """Whether the engine has been judged in a burst since it changed, or was given up."""
        return self._judged_ms != (0.0, 0.0) or not self.is_on

    def run(
        self, engine: Engine, image: NDArray[np.uint8], cache_map: CacheMap | None, peer: RemotePeer | None
    ) -> EngineResult:
        """Have the engine compute a frame (:meth:`Engine.run`) in the way that is on trial or was chosen."""
        if cache_map is not None and not cache_map.is_empty and self.is_on:  # an empty map reuses nothing
            self._tried_change = max(self._tried_change, 1 - cache_map.reuse_ratio)
        return engine.run(image, cache_map if self._reuses else None, peer)

    def covers(self, cache_map: CacheMap | None) -> bool:
        """Tell whether the engine may compute the next frame between bursts: its loss for such a frame is known.

        Args:
            cache_map: what of its cache is reusable; None: nothing is known, and the frame is computed completely.
        """
        if self.way is not Way.CACHED:
            return False
        if not self._reuses or cache_map is None or cache_map.is_empty:
            change = 0.0  # the frame is computed completely, which loses nothing
        else:
            change = 1 - cache_map.reuse_ratio
        if change <= self._known_change:
            self._far_off = 0
            return True
        self._far_off += 1
        if self._far_off >= _FAR_OFF:
            self.way = Way.DENSE
        return False

    def lost(self, *, is_interrupted: bool = False) -> None:
        """Start the trial of the current burst over, because the burst begins anew.

        Args:
            is_interrupted: the burst goes on instead, but some of its frames were computed in another way, so that
                nothing is judged by it.
        """
        self._begin()
        self._is_interrupted = is_interrupted

    def distrust(self) -> None:
        """Compute frames densely until a trial has shown the loss again, because less loss is allowed than before."""
        self.way = Way.DENSE

    def give_up(self) -> None:
        """Compute frames densely, and try the engine again only after a while, because it failed."""
        self.way, self.is_on, self._reuses = Way.DENSE, False, True
        self._wait_for_another(max(self._spent_ms, _FAILED_MS))

    def compare(self, engine_ms: float, dense_ms: float, *, engine_first: bool) -> None:
        """Note the times of a frame of the trial; end a hopeless trial.

        Args:
            engine_ms: time of the engine, with matching.
            dense_ms: time of dense execution.
            engine_first: whether the engine went first. The second one finds threads awake and weights in the
                processor's cache, so that only the first one's time tells what it takes alone.
        """
        self._spent_ms += engine_ms
        if engine_first:
            self._engine_ms.append(engine_ms)
        else:
            self._dense_ms.append(dense_ms)
        if len(self._engine_ms) >= _ENOUGH and self._dense_ms:
            self.is_on = median(self._engine_ms) <= _HOPELESS * median(self._dense_ms)

    def computed(self, milliseconds: float) -> None:
        """Note how long a frame outside of trials took."""
        self._wait_ms -= milliseconds

    def answered(self, milliseconds: float) -> str:
        """Note the engine's time for a frame between bursts, with matching; give it up where it is slower than dense.

        Returns:
            what was found, in words; empty where nothing was.
        """
        self.computed(milliseconds)
        self._answered_ms.append(milliseconds)
        spent_ms, dense_ms = self._judged_ms
        took_ms = median(self._answered_ms)
        if len(self._answered_ms) < _BETWEEN or took_ms <= dense_ms:
            return ""
        self.way, self.is_on, self._reuses = Way.DENSE, False, True
        self._wait_for_another(spent_ms)
        return f"given up between bursts, {took_ms:.1f} ms, dense {dense_ms:.1f} ms: {self.way.value} frames"

    def judge(self, loss: Loss | None, dense_ms: float, max_loss: float, moved: float) -> str:
        """Choose at the end of a burst how frames are computed until the next one.

        Args:
            loss: the loss of the engine's answers in the burst; None: it did not run on all of its frames.
            dense_ms: the time of a frame by the fastest backend that keeps the promise.
            moved: how many decisions of the burst lie where things move.

        Returns:
            what was found, in words; empty where nothing was.
        """
        is_whole, self._is_interrupted = not self._is_interrupted, False
        if not is_whole or not self._engine_ms or (loss is None and self.is_on):  # the trial is incomplete
            self._begin()
            self.is_on = self.is_on or self._wait_ms <= 0
            return ""
        engine_ms, spent_ms, tried = median(self._engine_ms), self._spent_ms, self._tried_change
        self._judged_ms = spent_ms, dense_ms
        self._begin()
        how = "" if not self._has_server else "with the server, " if self._reuses else "complete with the server, "
        keeps = loss is not None and loss.within(SHARE * max_loss)
        is_faster = engine_ms <= _CLEARLY * dense_ms
        shows_it = moved >= FEWEST_DECISIONS or not self._reuses
        self._known_change = max(tried, self._known_change if self.way is Way.CACHED else 0.0)
        self.way = Way.CACHED if keeps and is_faster and shows_it else Way.DENSE
        self.wants_thresholds = keeps and not is_faster and self._reuses
        if self.way is Way.CACHED:
            self.is_on, self._share = True, _COST
        elif self._has_server and self._reuses:
            self.is_on, self._reuses = True, False
        else:
            self.is_on, self._reuses = False, True
            self._wait_for_another(spent_ms)
        found = "given up" if loss is None else f"loss {loss.whole:.3f} ({loss.moving:.3f} where things move)"
        found += "" if shows_it else ", but next to nothing moved"
        return f"{how}{found}, {engine_ms:.1f} ms, dense {dense_ms:.1f} ms: {self.way.value} frames"

    def _begin(self) -> None:
        self._engine_ms, self._dense_ms, self._spent_ms, self._tried_change = [], [], 0.0, 0.0
        self._far_off = 0
        self._answered_ms.clear()

    def _wait_for_another(self, spent_ms: float) -> None:
        """Wait until a trial that took so long is a small share of all computing, a smaller one each time."""
        self._wait_ms, self._share = spent_ms / self._share, self._share / 2
