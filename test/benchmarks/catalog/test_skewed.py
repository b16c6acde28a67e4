# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The camera that mostly sees few of the classes."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest

from benchmarks.catalog.skewed import SkewedCamera, chances
from cacheinf_ros.sources.scenes import PHOTOGRAPHS


def test_chances_add_up() -> None:
    found = chances((3, 5), 0.9)
    assert (found[3], found[5]) == (0.45, 0.45)
    assert set(found) == set(range(len(PHOTOGRAPHS))) and sum(found.values()) == pytest.approx(1.0)
    assert chances(range(len(PHOTOGRAPHS)), 1.0)[0] == pytest.approx(1 / len(PHOTOGRAPHS))


def test_a_camera_looks_at_what_it_is_told_to() -> None:
    camera = SkewedCamera((48, 64), seed=1)
    labels = [seen.label for seen in camera.look(2000, chances((0, 4, 9), 0.9))]
    assert np.isin(labels, [0, 4, 9]).mean() == pytest.approx(0.9, abs=0.05)
    assert min(len(list(run)) for _, run in groupby(labels)) == 5
    assert {seen.label for seen in camera.look(50, {7: 1.0})} == {7}


def test_what_it_shows_is_the_photograph_of_its_label() -> None:
    """Two looks at one photograph resemble each other more than looks at two different ones do."""
    camera = SkewedCamera((48, 64), seed=1)
    first, again = (seen.image.astype(float) for seen in camera.look(2, {4: 1.0}))
    (other,) = (seen.image.astype(float) for seen in camera.look(1, {11: 1.0}))
    assert np.abs(first - again).mean() < 0.5 * np.abs(first - other).mean()
