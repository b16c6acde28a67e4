# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Decodes a camera's images, and says where the picture has hardly any grey levels."""

from __future__ import annotations

import logging
import re
from typing import Any

import numpy as np

from cacheinf_ros.errors import quoted
from cacheinf_ros.nodes.conversions import Pixels, image_from
from cacheinf_ros.pipeline import Health
from cacheinf_ros.pipeline.node_configs import ImageConfig

_NUMBERS = re.compile(r"mono16|(16U|16S|32F|64F)C1")
_NOTE = "image_values"
_FEW_LEVELS = 32
_SAMPLED = 4  # every so many rows and columns
_log = logging.getLogger(__name__)


class ImageReader:
    """Decodes the messages of one camera with the node's ``image_values``."""

    def __init__(self, config: ImageConfig, health: Health) -> None:
        """Prepare to decode; the values, where there are any, are reported in /diagnostics."""
        self._values = config.value_range
        self._health = health
        self._was_checked = False
        health.erase(_NOTE)
        if self._values is not None:
            health.note(_NOTE, str(self._values))

    def read(self, message: Any) -> Pixels:
        """Decode a message, see :func:`image_from`; raises :class:`MessageError` where it holds no image."""
        image = image_from(message, self._values)
        encoding = getattr(message, "encoding", "") or getattr(message, "format", "")
        if not self._was_checked and _NUMBERS.match(encoding):
            self._was_checked = True
            self._check(encoding, image)
        return image

    def _check(self, encoding: str, image: Pixels) -> None:
        """Say what to do where raw values became a picture in which nothing can be seen."""
        levels = np.unique(image[::_SAMPLED, ::_SAMPLED, 0]).size
        if self._values is None and levels < _FEW_LEVELS:
            complaint = "say which raw values are black and white, as in image_values: [7000.0, 9000.0]"
        elif levels == 1:
            complaint = f"with image_values {self._values} it is all black or white: choose others"
        else:
            return
        complaint = f"the first image, {quoted(encoding)}, has {levels} of 256 grey levels: {complaint}"
        self._health.note(_NOTE, complaint)
        _log.warning("%s", complaint)
