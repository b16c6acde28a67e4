# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The clips that are measured: built-in scenes, or the user's in folders named after their classes."""

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
"""What is measured where the user names no folder."""
_LAYOUT = "expected FOLDER/CLASS/CLIP, a clip being a video or a folder of pictures, or FOLDER/CLIP/PICTURE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """A recording.

    Attributes:
        label: its class: what it shows; of a built-in scene its name.
        source: as :func:`open_source` takes it.
    """

    label: str
    source: str

    def images(self, count: int) -> list[NDArray[np.uint8]]:
        """The first frames, uint8 [height, width, 3] each."""
        return [frame.image for frame in islice(open_source(self.source), count)]


def clips_in(folder: Path | None, *, per_class: int = 1) -> list[Clip]:
    """The clips of a folder as UCF101 has them, ``CLASS/CLIP.avi``, or as DAVIS has them, ``CLIP/0001.jpg``.

    Args:
        folder: None: the built-in scenes.
        per_class: how many of each class are taken, the first by name.

    Raises:
        SourceError: there is none.
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
