# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Frames in which a set share of the pixels changes, and recorded frames."""

import json
from itertools import islice, pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheinf_ros.bench.shots import Change, Pattern, changing, recorded
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.sources import OBJECT_LABELS, open_source


def test_changes_are_read() -> None:
    assert Change.parse("0.05") == Change.parse("0.05:blob") == Change(share=0.05, pattern=Pattern.BLOB)
    assert Change.parse("1:scatter") == Change(share=1.0, pattern=Pattern.SCATTER)


@pytest.mark.parametrize("text", ["", "some", "5", "-0.1", "nan", "0.1:square", "0.1:"])
def test_mistakes_are_named(text: str) -> None:
    if text == "0.1:":
        assert Change.parse(text).pattern is Pattern.BLOB
        return
    with pytest.raises(ConfigError, match="expected a share of the pixels"):
        Change.parse(text)


@settings(max_examples=25)
@given(
    st.sampled_from([0.0, 0.001, 0.01, 0.1, 0.5, 0.9, 1.0]),
    st.sampled_from(Pattern),
    st.tuples(st.integers(8, 70), st.integers(8, 70)),
)
def test_exactly_the_announced_pixels_change(share: float, pattern: Pattern, size: tuple[int, int]) -> None:
    shots = list(islice(changing(Change(share=share, pattern=pattern), size), 4))
    assert shots[0].cache_map is None
    for before, shot in pairwise(shots):
        assert shot.cache_map is not None and shot.image.shape == (*size, 3)
        assert np.array_equal((before.image != shot.image).any(axis=2), shot.cache_map.active_mask)
        slack = 0 if pattern is Pattern.SCATTER else max(size) / 2  # a square's sides are whole pixels
        assert abs(shot.cache_map.active_mask.sum() - share * size[0] * size[1]) <= slack + 0.5


@pytest.mark.parametrize("pattern", Pattern)
def test_maps_are_whole(pattern: Pattern) -> None:
    cache_map = list(islice(changing(Change(share=0.2, pattern=pattern), (40, 60)), 2))[1].cache_map
    assert cache_map is not None and cache_map.block_size == 1 and cache_map.motion.is_none
    assert cache_map.reuse_ratio == pytest.approx(cache_map.reusable.mean())


def test_a_blob_is_one_square() -> None:
    mask = Change(share=0.1).pixels((100, 200), np.random.default_rng(0))
    rows, columns = np.nonzero(mask)
    assert (np.ptp(rows) + 1, np.ptp(columns) + 1) == (45, 44)
    assert mask.sum() == 45 * 44


def test_blobs_wander_and_seeds_repeat() -> None:
    first, again, other = (
        [shot.image for shot in islice(changing(Change(share=0.1), (40, 60), seed=seed), 3)] for seed in (1, 1, 2)
    )
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[1], other[1])


def test_recorded_scenes_bring_their_truth() -> None:
    source = open_source("scene:fixed?size=48x64&frames=3")
    shots = list(recorded(source))
    assert len(shots) == 3 and all(shot.truth is not None and shot.cache_map is None for shot in shots)
    assert all(shot.objects and shot.marked == OBJECT_LABELS for shot in shots)
    assert np.array_equal(shots[1].image, list(source)[1].image)


def test_labelled_folders_know_every_object_of_their_classes_and_masks_some(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "0.jpg"), np.zeros((8, 8, 3), np.uint8))
    mask = np.zeros((8, 8), np.uint8)
    mask[2:5, 3:7] = 255
    cv2.imwrite(str(tmp_path / "0.png"), mask)
    (shot,) = recorded(open_source(str(tmp_path)))
    assert shot.marked == () and [(each.label, each.x, each.width) for each in shot.objects or ()] == [("", 3, 4)]
    content = {
        "images": [{"id": 1, "file_name": "0.jpg"}], "categories": [{"id": 1, "name": "cup"}], "annotations": [],
    }  # fmt: skip
    (tmp_path / "labels.json").write_text(json.dumps(content))
    (shot,) = recorded(open_source(str(tmp_path)))
    assert shot.marked == ("cup",) and shot.objects == ()
