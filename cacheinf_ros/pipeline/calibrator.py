# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Calibrates bounded mode on the first frames of a stream, in the background, while frames are processed."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine import (
    Caching,
    Calibration,
    EngineConfig,
    calibrate,
    calibration_file,
    load_calibration,
    save_calibration,
)
from cacheinf_ros.errors import EngineError, shortened
from cacheinf_ros.graph import Model
from cacheinf_ros.low_priority import lower_priority
from cacheinf_ros.pipeline.background_pace import BackgroundPace
from cacheinf_ros.pipeline.background_thread import start_background
from cacheinf_ros.pipeline.guard import guarded

FRAMES = 8
_COLLECTING = "collecting frames"
_FIRST_PAUSE = 256  # frames until others are collected where the first showed nothing; twice as many each time
_STOP_S = 3.0
_log = logging.getLogger(__name__)


class _Stopped(Exception):
    """The node ends before the calibration is done."""


class BackgroundCalibrator:
    """Loads a stored calibration where there is one; otherwise collects frames and calibrates on them in a thread.

    Where the frames are unusable, as those of an empty room may be, later ones are collected, after pauses that double:
    for some networks none are usable, and each try takes a processor for a while.
    """

    def __init__(self, model: Model, config: EngineConfig, caching: Caching) -> None:
        """Look for a stored calibration; ``caching``: the caching of the engine that is to be calibrated."""
        self._model = model
        self._config = config
        self._caching = caching
        self._file = calibration_file(model, config, caching)
        self._frames: list[NDArray[np.uint8]] = []
        self._maps: list[CacheMap | None] = []
        self._thread: threading.Thread | None = None
        self._goes_on = False  # whether others are collected once the thread has ended
        self._pause, self._next_pause = 0, _FIRST_PAUSE  # frames to let pass before that
        self._stopping = threading.Event()
        self._pace = BackgroundPace(config.threads, "calibration")
        self._found = load_calibration(self._file, model.graph)
        self._doing = "stored" if self._found else _COLLECTING
        self._objection = ""  # to the frames of the last try; empty: there was none, or it was fine

    @property
    def state(self) -> str:
        """The calibration's state, for diagnostics."""
        if not self._objection:
            return self._doing
        if self._pause:
            return f"failed, tried again {self._pause} frames later: {self._objection}"
        return f"{self._doing}, as it failed before: {self._objection}"

    def feed(self, image: NDArray[np.uint8], cache_map: CacheMap | None) -> Calibration | None:
        """Take a frame, uint8 [height, width, 3], and what is reusable for it of what the cache holds.

        Returns:
            the calibration, once, when there is one.
        """
        self._pace.frame()
        found = self._found  # the thread may set it at any time
        if found is not None:
            self._found = None
            return found
        if self._thread is not None and self._goes_on and not self._thread.is_alive():
            self._thread = None
        if self._thread is None and self._pause:
            self._pause -= 1
        elif self._thread is None:
            self._collect(image, cache_map)
        return None

    def stop(self, *, waits: bool = True) -> None:
        """Stop the calibration in the background; ``waits``: wait at most 3 s until it has ended."""
        self._stopping.set()
        if waits and self._thread is not None:
            self._thread.join(_STOP_S)

    def _go_on(self) -> None:
        if self._pace.must_rest():
            self._doing = "running slowly: little processor time is allowed"
            self._pace.rest(self._stopping)
        if self._stopping.is_set():
            raise _Stopped

    def _collect(self, image: NDArray[np.uint8], cache_map: CacheMap | None) -> None:
        if self._frames and self._frames[0].shape != image.shape:
            self._frames.clear()  # the camera changed its format
            self._maps.clear()
        self._frames.append(image.copy())
        self._maps.append(cache_map)
        self._doing = _COLLECTING
        if len(self._frames) == FRAMES:
            self._doing, self._goes_on = "running", False
            self._thread = start_background(self, self._calibrate, "calibration", self._stopping)

    def _calibrate(self) -> None:
        with guarded("calibration failed, bounded mode stays exact") as failure, suppress(_Stopped):
            self._pace.begin()
            try:
                calibration = calibrate(
                    self._model, self._frames, self._maps, self._config, self._caching,
                    between=self._go_on, measured=lower_priority,
                )  # fmt: skip
            except EngineError as error:
                self._fail(shortened(str(error)))
            else:
                save_calibration(calibration, self._file)
                self._found, self._objection, self._doing = calibration, "", "done"
        self._frames.clear()  # they are large, and not needed any more
        self._maps.clear()
        if failure:
            self._objection, self._doing = "", f"failed: {failure.reason}"

    def _fail(self, objection: str) -> None:
        """Try again after a pause, and log once, for all tries of which the frames show nothing for one reason."""
        if objection != self._objection:
            _log.warning(
                "calibration failed, bounded mode stays exact: %s; it is tried again %d frames later, and after twice "
                "as many each time that it fails (said once; see calibration in /diagnostics)",
                objection, self._next_pause,
            )  # fmt: skip
        self._pause, self._next_pause = self._next_pause, 2 * self._next_pause
        self._objection, self._goes_on = objection, True
