# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Frames from a video file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np

from cacheinf_ros.errors import SourceError
from cacheinf_ros.sources.frame import Frame

_ASSUMED_FPS = 30.0
_MODELS = (".onnx", ".pt2", ".pt", ".pth", ".safetensors", ".yaml")


class VideoSource:
    """A video file that OpenCV can decode.

    Frames are assumed to be evenly spaced. ``length`` is what the file's header says.

    Raises:
        SourceError: the file cannot be read or holds no picture.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        capture = _opened(path)
        try:
            fps = capture.get(cv2.CAP_PROP_FPS)
            count = capture.get(cv2.CAP_PROP_FRAME_COUNT)
            if not capture.read()[0]:
                raise SourceError(f"{path}: no picture can be decoded; the video is empty, damaged or cut off")
        finally:
            capture.release()
        self.fps: float = float(fps) if np.isfinite(fps) and fps > 0 else _ASSUMED_FPS
        self.length: int | None = int(count) if count > 0 else None

    def __iter__(self) -> Iterator[Frame]:
        """Yield the frames from the start; a file that is cut off ends early."""
        capture = _opened(self.path)
        index = 0
        try:
            while True:
                read, image = capture.read()
                if not read:
                    return
                yield Frame(index=index, stamp_ns=round(index * 1e9 / self.fps), image=np.asarray(image, np.uint8))
                index += 1
        finally:
            capture.release()


def _opened(path: Path) -> cv2.VideoCapture:
    if not os.access(path, os.R_OK):
        raise SourceError(f"{path}: no permission to read; change it with chmod or run as its owner")
    if path.suffix in _MODELS:
        raise SourceError(f"{path} is a model, not a recording: have the two changed places?")
    capture = cv2.VideoCapture(str(path))
    if not capture.isOpened():
        raise SourceError(f"{path}: not a video that OpenCV can decode; convert it, e.g. with ffmpeg to .mp4")
    return capture
