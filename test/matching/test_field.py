# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The block field: several motions in one map."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from numpy.typing import NDArray
from oracle import dense
from strategies import image_streams, matching_configs, shifted, textured

from cacheinf_ros.cache_map import CacheMap, Motion, compose
from cacheinf_ros.engine.quality import OutputScale
from cacheinf_ros.graph import load_model
from cacheinf_ros.matching import MatcherName, MatchingConfig, MatchingStream, make_matcher
from cacheinf_ros.matching.psnr import psnr
from cacheinf_ros.sources import open_source

Image = NDArray[np.uint8]
FIELD = MatchingConfig(matcher=MatcherName.FIELD, threshold=40.0, search_range=8)


def moves(cache_map: CacheMap) -> NDArray[np.int64]:
    """int64 [rows, columns, 2]: by how much each block moved, whether the map has a field or not."""
    if cache_map.field is not None:
        return cache_map.field.astype(np.int64)
    dx, dy = map(int, cache_map.motion.shift or (0, 0))
    return np.broadcast_to(np.array([dx, dy]), (*cache_map.reusable.shape, 2))


def test_two_halves_that_move_apart_are_both_reused() -> None:
    image = textured(0, 120, 160, blur=4.0)
    frame = np.concatenate([shifted(image, 2, 0)[:60], shifted(image, -5, 0)[60:]])
    cache_map = make_matcher(FIELD).match(image, frame)
    assert cache_map.field is not None
    assert (cache_map.field[:6][cache_map.reusable[:6]] == (2, 0)).all()
    assert (cache_map.field[6:][cache_map.reusable[6:]] == (-5, 0)).all()
    assert cache_map.reusable[:, 1:-1].all()
    piece = cache_map.as_one_piece
    assert piece.field is None
    assert piece.motion.shift in ((2.0, 0.0), (-5.0, 0.0))
    assert 0.4 < piece.reuse_ratio < 0.6


def test_what_moves_together_has_no_field() -> None:
    image = textured(1, 120, 160, blur=4.0)
    cache_map = make_matcher(FIELD).match(image, shifted(image, 3, -2))
    assert cache_map.field is None
    assert cache_map.motion.shift == (3.0, -2.0)
    assert cache_map.as_one_piece is cache_map


@given(stream=image_streams(frames=2), config=matching_configs(matcher=MatcherName.FIELD))
def test_every_reusable_block_has_the_psnr_where_its_field_leads(stream: list[Image], config: MatchingConfig) -> None:
    reference, frame = stream
    cache_map = make_matcher(config).match(reference, frame)
    size, found = cache_map.block_size, moves(cache_map)
    for row, column in zip(*np.nonzero(cache_map.reusable), strict=True):
        ours = frame[row * size : (row + 1) * size, column * size : (column + 1) * size]
        left, top = column * size - found[row, column, 0], row * size - found[row, column, 1]
        assert min(top, left) >= 0
        theirs = reference[top : top + ours.shape[0], left : left + ours.shape[1]]
        assert psnr(theirs, ours) >= config.threshold - 1e-9 or np.array_equal(theirs, ours)


@given(stream=image_streams(frames=2), config=matching_configs(matcher=MatcherName.FIELD))
def test_a_field_reuses_at_least_what_stays(stream: list[Image], config: MatchingConfig) -> None:
    field = make_matcher(config).match(*stream)
    identity = make_matcher(config.changed(matcher=MatcherName.IDENTITY)).match(*stream)
    assert not (identity.reusable & ~field.reusable).any()


@given(stream=image_streams(frames=5, largest=32), config=matching_configs(matcher=MatcherName.FIELD))
def test_folded_fields_show_what_the_reference_showed(stream: list[Image], config: MatchingConfig) -> None:
    """Frames dropped in between: a block that is still reusable is the moved reference's, byte by byte."""
    matching = MatchingStream(config.changed(expiry=100))
    matching.match(stream[0])
    held = np.array(matching.reference)
    folded: CacheMap | None = None
    for frame in stream[1:]:
        cache_map = matching.match(frame)
        folded = cache_map if folded is None else compose(folded, cache_map)
    assert folded is not None
    now, size, found = matching.reference, folded.block_size, moves(folded)
    assert now is not None
    for row, column in zip(*np.nonzero(folded.reusable), strict=True):
        ours = now[row * size : (row + 1) * size, column * size : (column + 1) * size]
        left, top = column * size - found[row, column, 0], row * size - found[row, column, 1]
        assert np.array_equal(ours, held[top : top + ours.shape[0], left : left + ours.shape[1]])


def test_a_field_does_not_fold_with_a_homography() -> None:
    image = textured(0, 40, 40)
    frame = np.concatenate([image[:20], shifted(image, 2, 0)[20:]])
    field = make_matcher(FIELD).match(image, frame)
    tilted = Motion(matrix=np.array([[1, 0.01, 0], [0, 1, 0], [0, 0, 1.0]]))
    warped = CacheMap.of_blocks(np.ones((4, 4), np.bool_), (40, 40), 10, tilted)
    assert field.field is not None
    for first, second in ((field, warped), (warped, field)):
        assert compose(first, second).reuse_ratio == 0
        assert "homography" in compose(first, second).reason


def test_with_parallax_a_field_reuses_half_as_much_again_as_a_homography_at_no_more_error() -> None:
    """Two planes at different depths. The error is what a network says of the frame composed of both."""
    frames = [frame.image for frame in open_source("scene:parallax?frames=10")]
    model = load_model("scenenet")
    exact = [dense(model, frame) for frame in frames]
    scale = OutputScale.of([dense(model, picture) for picture in (frames[0], frames[0][::-1].copy(), frames[-1])])
    reuse, errors = {}, {}
    for name in (MatcherName.FIELD, MatcherName.HOMOGRAPHY):
        matching = MatchingStream(MatchingConfig(matcher=name, threshold=36.0, warp_threshold=6.0, expiry=1000))
        maps = []
        for frame, expected in zip(frames, exact, strict=True):
            maps.append(matching.match(frame))
            shown = np.where(maps[-1].reusable_mask[:, :, None], matching.reference, frame)
            errors.setdefault(name, []).append(scale.error(dense(model, np.ascontiguousarray(shown)), expected))
        reuse[name] = np.mean([cache_map.reuse_ratio for cache_map in maps[1:]])
    assert reuse[MatcherName.FIELD] >= 1.5 * reuse[MatcherName.HOMOGRAPHY]
    assert np.mean(errors[MatcherName.FIELD]) <= np.mean(errors[MatcherName.HOMOGRAPHY])
