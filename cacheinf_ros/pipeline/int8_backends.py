# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A model's int8 backends: the engine's kernels, by scales from a user's frames; others where those do not pay."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine import kernel_library
from cacheinf_ros.engine.dense_backends import Backend, DenseBackend, InInt8, faster_backends
from cacheinf_ros.engine.int8_content import int8_content, kept_int8_content
from cacheinf_ros.engine.quantisation import Maker, kept_scales, own_scales, scales_of_frames
from cacheinf_ros.graph import Model, Scales
from cacheinf_ros.pipeline.guard import guarded

_OTHERS = (Backend.OPENVINO_INT8, Backend.ONNXRUNTIME_INT8)
_log = logging.getLogger(__name__)


class Int8Backends:
    """Makes int8 backends, and gives up those that are not clearly faster than float32. For one thread at a time."""

    def __init__(self, model: Model, threads: int, full: DenseBackend, stopping: threading.Event) -> None:
        """Remember the model and what its int8 backends must beat.

        Args:
            full: the float32 backend that int8 has to beat.
            stopping: set where nobody waits for a backend any more.
        """
        self._model = model
        self._threads = threads
        self._full = full
        self._stopping = stopping
        self._own_pay = kernel_library() is not None
        self._others_pay = True

    @property
    def are_worth_it(self) -> bool:
        """Whether any int8 backend may be faster than float32, as far as is known."""
        return self._own_pay or self._others_pay

    def kept(self) -> DenseBackend | None:
        """Return a backend from stored scales or a stored quantised model, whatever that was calibrated on, or None.

        The scales are those of the model file, if that is quantised; else those that this node found in an earlier
        run, or those of ``cacheinf quantise``.
        """
        scales = self._of_the_file or kept_scales(self._model, Maker.NODE) or kept_scales(self._model)
        own = self._by_own(scales) if self._own_pay and scales is not None else None
        return own or self._by_others(())

    def made(self, frames: Sequence[NDArray[np.uint8]]) -> DenseBackend | None:
        """Make a backend that is calibrated on these frames, uint8 [height, width, 3]; takes a minute or more."""
        if self._own_pay and self._of_the_file is None:
            with guarded("frames are not computed in int8 by the engine's kernels") as failure:
                scales = scales_of_frames(self._model, frames, self._stopping)
            self._own_pay = not failure
            if not failure and (own := self._by_own(scales)):
                return own
        return self._by_others(frames)

    @cached_property
    def _of_the_file(self) -> Scales | None:
        """The scales of a model file that was quantised; None for any other file."""
        return own_scales(self._model)

    def _by_own(self, scales: Scales) -> DenseBackend | None:
        own = self._fastest((Backend.OWN_INT8,), scales)
        self._own_pay = own is not None
        return own

    def _by_others(self, frames: Sequence[NDArray[np.uint8]]) -> DenseBackend | None:
        """Make a backend of another runtime; without frames, from its stored quantised model."""
        if not self._others_pay or self._stopping.is_set():
            return None
        try:
            content = int8_content(self._model, frames, self._stopping) if frames else kept_int8_content(self._model)
        except ImportError as error:
            self._others_pay = False
            if not self._own_pay:
                _log.warning("frames are not computed in int8: %s", error)
            return None
        if content is None:
            return None
        found = self._fastest(_OTHERS, content)
        self._others_pay = found is not None
        return found

    def _fastest(self, backends: Sequence[Backend], quantised: InInt8) -> DenseBackend | None:
        found = faster_backends(self._model, self._threads, self._full, backends, quantised)
        return found[-1] if found else None
