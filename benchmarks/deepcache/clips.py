# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The clips to measure on: built-in scenes, or the user's clips in folders named after their classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import SourceError
from cacheinf_ros.sources import open_source
from cacheinf_ros.sources.folder import IMAGE_SUFFIXES

SCENES = ("scene:fixed", "scene:handheld", "scene:pan", "scene:forward")
"""The sources that are measured where the user names no folder."""
_LAYOUT = "expected FOLDER/CLASS/CLIP, a clip being a video or a folder of pictures, or FOLDER/CLIP/PICTURE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """A recording with its class.

    Attributes:
        label: the class of what it shows; a built-in scene's is its name.
        source: a source for :func:`open_source`.
    """

    label: str
    source: str

    def images(self, count: int) -> list[NDArray[np.uint8]]:
        """Read the first frames, each uint8 [height, width, 3]."""
        return [frame.image for frame in islice(open_source(self.source), count)]


def clips_in(folder: Path | None, *, per_class: int = 1) -> list[Clip]:
    """Find the clips of a folder that is laid out like UCF101, ``CLASS/CLIP.avi``, or DAVIS, ``CLIP/0001.jpg``.

    Args:
        folder: the folder; None: the built-in scenes.
        per_class: how many clips of each class are taken, the first by name.

    Raises:
        SourceError: there are no clips.
    """
    if folder is None:
        return [Clip(label=source.partition(":")[2], source=source) for source in SCENES]
    classes = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    clips = [Clip(label=path.name, source=str(clip)) for path in classes for clip in _clips(path)[:per_class]]
    if not clips:
        raise SourceError(f"{folder} holds no clips: {_LAYOUT}")
    return clips


def _clips(folder: Path) -> Sequence[Path]:
    entries = sorted(folder.iterdir())
    if any(entry.suffix.lower() in IMAGE_SUFFIXES for entry in entries):
        return [folder]
    return [entry for entry in entries if not entry.name.startswith(".")]
