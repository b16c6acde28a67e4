# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The real photographs of built-in scenes, which ship inside the scikit-image package."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import SourceError
from cacheinf_ros.sources.scenes.scene_config import Gallery

# disjoint, so that networks are tested on pictures that they were not trained on
_FILES = {
    Gallery.TEST: ("motorcycle_left.png", "coffee.png", "chelsea.png", "camera.png", "grass.png"),
    Gallery.TRAIN: (
        "astronaut.png",
        "rocket.jpg",
        "ihc.png",
        "retina.jpg",
        "hubble_deep_field.jpg",
        "brick.png",
        "gravel.png",
        "coins.png",
        "moon.png",
        "clock_motion.png",
    ),
}

PHOTOGRAPHS = tuple(sorted(name.partition(".")[0] for names in _FILES.values() for name in names))
"""The names of all photographs: what ``SceneConfig.photograph`` may be, and the classes of ``scenenames``."""


def load_photograph(name: str) -> NDArray[np.uint8]:
    """Read the photograph of a name, one of :data:`PHOTOGRAPHS`: uint8 [height, width, 3], BGR.

    Raises:
        SourceError: there is no photograph of this name, or scikit-image is not installed with its pictures.
    """
    for file in (file for names in _FILES.values() for file in names):
        if file.partition(".")[0] == name:
            return _read(_data_folder() / file)
    raise SourceError(f"there is no photograph {name!r}; choose from {', '.join(PHOTOGRAPHS)}")


def load_photographs(gallery: Gallery) -> tuple[NDArray[np.uint8], ...]:
    """Read the photographs of a set, each uint8 [height, width, 3], BGR.

    The files are read by path: importing scikit-image takes long, and its loaders may try to download.

    Raises:
        SourceError: scikit-image is not installed, or without its pictures.
    """
    folder = _data_folder()
    return tuple(_read(folder / name) for name in _FILES[gallery])


def _data_folder() -> Path:
    spec = find_spec("skimage")
    if spec is None or not spec.submodule_search_locations:
        raise SourceError("built-in scenes show the photographs of scikit-image; pip install scikit-image")
    return Path(next(iter(spec.submodule_search_locations))) / "data"


def _read(path: Path) -> NDArray[np.uint8]:
    image = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if image is None:
        raise SourceError(f"built-in scenes need the photograph {path}; pip install --force-reinstall scikit-image")
    return np.asarray(image, np.uint8)
