# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The chain of maps: no dropped frame or map may ever mark something as reusable that changed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cacheinf_ros.cache_map import LARGEST_SIDE, CacheMap, Motion
from cacheinf_ros.errors import CacheMapError, MatchingError
from cacheinf_ros.pipeline.map_chain import (
    BROKEN,
    EMPTY,
    LATE,
    MAPS_KEPT,
    OTHER_SIZE,
    CacheChain,
    MapSequencer,
    MapUpdate,
)

SIZE = (12, 16)
BLOCK = 4


class IdenticalBlocks:
    """The trivial matching stream: a block is reusable where no pixel differs from the frame before."""

    def __init__(self) -> None:
        self.reference: NDArray[np.uint8] | None = None

    def match(self, image: NDArray[np.uint8]) -> CacheMap:
        reference, self.reference = self.reference, image
        if reference is None:
            return CacheMap.nothing(SIZE, BLOCK, "no reference")
        same = (reference == image).all(axis=2).reshape(3, BLOCK, 4, BLOCK).all(axis=(1, 3))
        return CacheMap.of_blocks(same, SIZE, BLOCK, Motion.none())

    def reset(self, reason: str) -> None:
        self.reference = None


class Unmatchable(IdenticalBlocks):
    def match(self, image: NDArray[np.uint8]) -> CacheMap:
        raise MatchingError("image is empty")


def frames_with_changing_blocks(changes: list[int]) -> list[NDArray[np.uint8]]:
    """Make one frame per entry, each with one more block painted in a new colour."""
    image = np.zeros((*SIZE, 3), np.uint8)
    frames = []
    for colour, block in enumerate(changes, start=1):
        image = image.copy()
        row, column = divmod(block, SIZE[1] // BLOCK)
        image[row * BLOCK : (row + 1) * BLOCK, column * BLOCK : (column + 1) * BLOCK] = colour
        frames.append(image)
    return frames


def links_of(frames: list[NDArray[np.uint8]], session: str = "a") -> list[MapUpdate]:
    linker = MapSequencer(IdenticalBlocks(), session)
    return [linker.link(frame, stamp_ns=100 + i) for i, frame in enumerate(frames)]


@given(
    changes=st.lists(st.integers(0, 11), min_size=2, max_size=40),
    fates=st.lists(st.sampled_from(["run", "skip", "lose map", "late map", "fail", "restart"]), min_size=40),
)
def test_what_is_reused_is_what_the_cache_holds(changes: list[int], fates: list[str]) -> None:
    frames = frames_with_changing_blocks(changes)
    linker, chain, cache = MapSequencer(IdenticalBlocks(), "a"), CacheChain(), None
    for stamp, (frame, fate) in enumerate(zip(frames, fates, strict=False), start=100):
        if fate == "restart":
            linker = MapSequencer(IdenticalBlocks(), f"session {stamp}")
        link = linker.link(frame, stamp)
        if fate not in ("lose map", "late map"):
            chain.add(link)
        if fate == "skip":
            continue
        fold = chain.path(stamp).folded(SIZE)
        if fold.cache_map is not None and cache is not None:
            reused = fold.cache_map.reusable_mask
            assert np.array_equal(cache[reused], frame[reused])
        assert fold.cache_map is None or cache is not None or not fold.cache_map.reusable.any()
        if fate == "fail":
            chain.invalidate()
            cache = None
        else:
            chain.mark_cached(stamp, chain.path(stamp))
            cache = frame
        if fate == "late map":
            chain.add(link)


def test_skipped_frames_fold_and_keep_what_did_not_change() -> None:
    links = links_of(frames_with_changing_blocks([0, 1, 2, 3]))
    chain = CacheChain()
    for link in links:
        chain.add(link)
    chain.mark_cached(100, chain.path(100))
    folded = chain.path(103).folded(SIZE).cache_map
    assert folded is not None
    assert np.flatnonzero(~folded.reusable).tolist() == [1, 2, 3]


def test_maps_of_another_size_than_the_frame_are_not_folded() -> None:
    """Anybody can send maps as large as a map may be: folding them would take 20 GB."""
    links = links_of(frames_with_changing_blocks([0, 1, 2, 3]))
    side = LARGEST_SIDE
    huge = CacheMap.of_blocks(np.ones((1, 1), np.bool_), (side, side), side, Motion.translation(0.5, 0.0))
    chain = CacheChain()
    for link in (links[0], replace(links[1], cache_map=huge), replace(links[2], cache_map=huge), links[3]):
        chain.add(link)
    chain.mark_cached(100, chain.path(100))
    assert chain.path(102).folded(SIZE).gap == OTHER_SIZE
    folded = chain.path(103).folded(SIZE).cache_map
    assert folded is not None
    assert folded.image_size == SIZE
    assert folded.is_empty


def test_a_missing_map_is_a_gap_and_the_frame_after_it_reuses_again() -> None:
    links = links_of(frames_with_changing_blocks([0, 1, 2, 3]))
    chain = CacheChain()
    chain.add(links[0])
    chain.mark_cached(100, chain.path(100))
    chain.add(links[2])
    assert chain.path(102).folded(SIZE).gap == BROKEN
    chain.mark_cached(102, chain.path(102))
    chain.add(links[3])
    assert chain.path(103).folded(SIZE).cache_map is not None


def test_a_frame_run_without_its_map_is_found_by_its_stamp() -> None:
    links = links_of(frames_with_changing_blocks([0, 1]))
    chain = CacheChain()
    assert chain.path(100).folded(SIZE).gap == LATE
    chain.mark_cached(100, chain.path(100))
    chain.add(links[0])
    chain.add(links[1])
    assert chain.path(101).folded(SIZE).cache_map is not None


def test_a_node_started_late_reuses_nothing_at_first() -> None:
    chain = CacheChain()
    chain.add(links_of(frames_with_changing_blocks([0, 1, 2]))[2])
    assert chain.path(102).folded(SIZE).gap == EMPTY


def test_a_new_session_voids_what_the_cache_holds() -> None:
    frames = frames_with_changing_blocks([0, 1])
    chain = CacheChain()
    chain.add(links_of(frames)[0])
    chain.mark_cached(100, chain.path(100))
    chain.add(links_of(frames, "b")[1])
    assert chain.path(101).folded(SIZE).gap == EMPTY


def test_maps_of_a_time_that_was_left_are_forgotten() -> None:
    chain = CacheChain()
    for link in links_of(frames_with_changing_blocks([0, 1, 2])):
        chain.add(link)
    chain.mark_cached(100, chain.path(100))
    chain.invalidate_from(50)
    assert chain.find(101) is None
    assert chain.find(102) is None


def test_maps_whose_stamps_go_backwards_replace_those_before() -> None:
    frames = frames_with_changing_blocks([0, 1])
    linker, chain = MapSequencer(IdenticalBlocks(), "a"), CacheChain()
    for stamp in (100, 101, 100):
        link = linker.link(frames[0], stamp)
        chain.add(link)
    assert link.reference_sequence == 0
    assert chain.find(101) is None
    assert chain.find(100) is link


def test_no_more_maps_are_kept_than_allowed() -> None:
    chain = CacheChain()
    for link in links_of(frames_with_changing_blocks([0] * (MAPS_KEPT + 2))):
        chain.add(link)
    assert chain.find(100) is None
    assert chain.find(102) is not None


def test_an_unreadable_frame_breaks_nothing() -> None:
    frames = frames_with_changing_blocks([0, 1])
    linker, chain = MapSequencer(IdenticalBlocks(), "a"), CacheChain()
    chain.add(linker.link(frames[0], 100))
    chain.mark_cached(100, chain.path(100))
    chain.add(linker.unreadable(101, (1, 1), "not an image"))
    chain.add(linker.link(frames[1], 102))
    assert chain.path(102).folded(SIZE).cache_map is not None


@pytest.mark.parametrize("reference", [2, 3, 2**32 - 1])
def test_a_map_that_leads_from_itself_or_a_later_one_is_refused(reference: int) -> None:
    """Folding would follow such a map for ever."""
    second = links_of(frames_with_changing_blocks([0, 1]))[1]
    with pytest.raises(CacheMapError, match=f"map 2 leads from map {reference}"):
        replace(second, reference_sequence=reference)


def test_a_stream_that_fails_drops_its_reference() -> None:
    linker = MapSequencer(Unmatchable(), "a")
    with pytest.raises(MatchingError, match="empty"):
        linker.link(np.zeros((*SIZE, 3), np.uint8), 100)


class FailsHalfWay(IdenticalBlocks):
    """A stream that takes a frame as its reference, and fails before it has returned what is reusable."""

    def match(self, image: NDArray[np.uint8]) -> CacheMap:
        cache_map = super().match(image)
        if image.max() == 2:
            raise MemoryError("a picture more")
        return cache_map


def test_a_frame_that_failed_by_a_bug_is_no_reference() -> None:
    """No cache holds the failed frame: nothing may be reusable in a frame that looks the same."""
    first, second = frames_with_changing_blocks([0, 1])
    linker = MapSequencer(FailsHalfWay(), "a")
    linker.link(first, 100)
    with pytest.raises(MemoryError):
        linker.link(second, 101)
    third = second.copy()
    third[0, 0] = 3  # a picture that does not fail
    link = linker.link(third, 102)
    assert link.reference_sequence == 0
    assert link.cache_map.is_empty
