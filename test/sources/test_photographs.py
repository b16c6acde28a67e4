# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of scenes made from one photograph."""

import numpy as np
import pytest

from cacheinf_ros.errors import SourceError
from cacheinf_ros.sources import open_source
from cacheinf_ros.sources.scenes import PHOTOGRAPHS, Gallery, load_photograph, load_photographs


def test_every_photograph_has_a_name() -> None:
    assert len(PHOTOGRAPHS) == len(set(PHOTOGRAPHS)) == sum(len(load_photographs(gallery)) for gallery in Gallery)
    assert np.array_equal(load_photograph("coffee"), load_photographs(Gallery.TEST)[1])


def test_a_scene_shows_one_photograph() -> None:
    """Grey photographs have equal channels everywhere, and no coloured objects are added."""
    scene = open_source("scene:pan?size=64x96&objects=0&noise=0&photograph=brick")
    image = scene.frame(40).image.astype(int)
    assert np.ptp(image, axis=2).max() <= 1


def test_an_unknown_photograph_is_named() -> None:
    with pytest.raises(SourceError, match="no photograph 'nothing'; choose from astronaut"):
        open_source("scene:fixed?photograph=nothing")
