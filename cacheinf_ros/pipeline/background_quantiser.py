# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Makes a model's int8 backend in the background, calibrated on frames of bursts that show something to decide on.

The first one uses the stored calibration, whatever that was made on. Where it loses too much on this stream, the model
is quantised again on the frames seen since.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine import Preprocessor
from cacheinf_ros.engine.dense_backends import DenseBackend
from cacheinf_ros.graph import Model
from cacheinf_ros.pipeline.background_thread import start_background
from cacheinf_ros.pipeline.guard import guarded
from cacheinf_ros.pipeline.int8_backends import Int8Backends

Image = NDArray[np.uint8]
_FRAMES = 48  # kept for calibration, at the model's size
_EVERY = 2  # one of so many frames of a burst is kept
_NOT_AGAIN = 3  # bursts to wait after a try; doubled each time
_log = logging.getLogger(__name__)


class BackgroundQuantiser:
    """Prepares int8 backends in a thread of its own. For one thread at a time."""

    def __init__(self, model: Model, threads: int, full: DenseBackend, offer: Callable[[DenseBackend], None]) -> None:
        """Begin with the quantised model that was kept, if there is one.

        Args:
            full: the float32 backend that int8 has to beat.
            offer: takes each backend that is faster.
        """
        self._offer = offer
        self._preprocessor = Preprocessor(model.card)
        self._burst: list[Image] = []
        self._frames: deque[Image] = deque(maxlen=_FRAMES)
        self._seen = 0
        self._pause, self._next_pause = 0, _NOT_AGAIN
        self._stopping = threading.Event()
        self._backends = Int8Backends(model, threads, full, self._stopping)
        self._thread = self._started(())

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being prepared."""
        return not self._thread.is_alive()

    def see(self, image: Image) -> None:
        """Take a frame of a burst, uint8 [height, width, 3]."""
        if self._backends.are_worth_it and self._seen % _EVERY == 0:
            self._burst.append(self._preprocessor.resize(image).copy())
        self._seen += 1

    def lost(self) -> None:
        """Forget the frames of the current burst, which begins anew."""
        self._burst.clear()

    def end_burst(self, *, shows_something: bool, is_wanted: bool) -> None:
        """End a burst, and quantise on the frames seen so far where that is due.

        Args:
            shows_something: whether dense execution decided anything in the burst; else its frames are not used.
            is_wanted: whether an int8 backend that loses little is still lacking.
        """
        if shows_something:
            self._frames.extend(self._burst)
        self._burst.clear()
        if self._pause:
            self._pause -= 1
        elif is_wanted and shows_something and self._backends.are_worth_it and self.is_idle:
            self._pause, self._next_pause = self._next_pause, 2 * self._next_pause
            self._thread = self._started(tuple(self._frames))

    def wait(self) -> None:
        """Wait until nothing is being prepared."""
        self._thread.join()

    def stop(self, patience_s: float) -> None:
        """End the work in the background, and wait for that at most so many seconds."""
        self._stopping.set()
        self._thread.join(patience_s)

    def _started(self, frames: Sequence[Image]) -> threading.Thread:
        return start_background(self, partial(self._prepare, frames), "quantisation", self._stopping)

    def _prepare(self, frames: Sequence[Image]) -> None:
        with guarded("frames are not computed in int8"):
            if frames:
                _log.info("the model is quantised to int8 on %d frames, beside the others", len(frames))
            backend = self._backends.made(frames) if frames else self._backends.kept()
            if backend is not None and not self._stopping.is_set():
                self._offer(backend)
