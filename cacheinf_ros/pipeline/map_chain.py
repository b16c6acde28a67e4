# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The chain of cache maps: which frame each map leads from, and how the maps of skipped frames fold into one.

A matcher compares every frame with the reference that the frame before it left, so its maps form a chain. A node that
holds a cache may skip frames (the latest frame wins); the maps in between then fold into one that leads from the cached
frame to the one at hand. Where the chain has a gap, nothing may be reused.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, fold
from cacheinf_ros.errors import CacheMapError
from cacheinf_ros.pipeline.guard import guarded

MAPS_KEPT = 32
"""The number of maps held at most, and so the longest fold.

Over a longer gap little is reusable, and computing is cheaper.
"""

EMPTY = "the cache holds nothing"
UNORDERED = "the stamps of images do not increase"
LATE = "the frame's cache map did not arrive"
BROKEN = "a cache map between the cached frame and this one is missing"
OTHER_SIZE = "a cache map is for pictures of another size"
UNUSABLE = "a cache map contradicts itself, see the node's log"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapUpdate:
    """One cache map and its place in the chain. A map that leads from itself or a later one raises CacheMapError.

    Attributes:
        session: the matcher's session; sequence numbers count within it.
        sequence: the number of this map, from 1.
        reference_sequence: the number of the map whose frame left the reference; 0 where there is no reference.
        stamp_ns: the stamp of the frame.
        reference_stamp_ns: the stamp of the last frame that went into the reference.
        cache_map: what is reusable, from the reference to the frame.
        matcher: the name of the algorithm.
        matching_ms: how long matching took.
    """

    session: str
    sequence: int
    reference_sequence: int
    stamp_ns: int
    reference_stamp_ns: int
    cache_map: CacheMap
    matcher: str = ""
    matching_ms: float = 0.0

    def __post_init__(self) -> None:
        if self.reference_sequence and self.reference_sequence >= self.sequence:
            raise CacheMapError(f"map {self.sequence} leads from map {self.reference_sequence}, which is not before it")

    @property
    def starts_anew(self) -> bool:
        """Whether the map needs no earlier one, because it reuses nothing."""
        return self.reference_sequence == 0 or self.cache_map.is_empty


class Stream(Protocol):
    """The part of :class:`cacheinf_ros.matching.MatchingStream` that :class:`MapSequencer` needs."""

    def match(self, image: NDArray[np.uint8]) -> CacheMap:
        """Find what of this frame is reusable, and make it part of the reference."""
        ...

    def reset(self, reason: str) -> None:
        """Drop the reference."""
        ...


class MapSequencer:
    """Numbers the maps of a matching stream: this is the producer's end of the chain."""

    def __init__(self, stream: Stream, session: str) -> None:
        self._stream = stream
        self._session = session
        self._sequence = 0
        self._reference: MapUpdate | None = None
        self._last_stamp_ns = 0

    def link(self, image: NDArray[np.uint8], stamp_ns: int) -> MapUpdate:
        """Match the next frame, uint8 [height, width, 3]. A stamp before the last one drops the reference."""
        if stamp_ns < self._last_stamp_ns:
            self.reset("time went backwards")
        self._last_stamp_ns = stamp_ns
        try:
            cache_map = self._stream.match(image)
        except Exception:  # a bug too may leave parts of a frame in the reference that no cache has seen
            self.reset("the frame before it could not be matched")
            raise
        reference = None if cache_map.reason else self._reference
        self._reference = self._next(stamp_ns, cache_map, reference)
        return self._reference

    def unreadable(self, stamp_ns: int, image_size: tuple[int, int], reason: str) -> MapUpdate:
        """Return the map of a frame that cannot be matched: it reuses nothing, and the reference stays as it was.

        The map has a single block, as nobody knows whether the frame is as large as it claims to be.
        """
        return self._next(stamp_ns, CacheMap.nothing(image_size, max(image_size), reason), None)

    def reset(self, reason: str) -> None:
        """Drop the reference."""
        self._stream.reset(reason)
        self._reference = None

    def _next(self, stamp_ns: int, cache_map: CacheMap, reference: MapUpdate | None) -> MapUpdate:
        self._sequence += 1
        return MapUpdate(
            session=self._session,
            sequence=self._sequence,
            reference_sequence=reference.sequence if reference else 0,
            stamp_ns=stamp_ns,
            reference_stamp_ns=reference.stamp_ns if reference else 0,
            cache_map=cache_map,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedMap:
    """What may be reused of the cache for one frame.

    Attributes:
        cache_map: from what the cache holds to the frame; None: compute everything.
        gap: why the chain does not lead from what the cache holds to the frame; empty where it does.
    """

    cache_map: CacheMap | None
    gap: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPath:
    """The maps that lead from what a cache holds to a frame.

    Attributes:
        links: the maps, the earliest first; none where there is a gap.
        gap: see :class:`FoldedMap`.
        own: the frame's own map, even if there is a gap before it; None where it has not come.
    """

    links: tuple[MapUpdate, ...] = ()
    gap: str = ""
    own: MapUpdate | None = None

    def folded(self, image_size: tuple[int, int]) -> FoldedMap:
        """Fold the maps into one. This takes time for each pixel: do not call it while holding a lock.

        Args:
            image_size: (height, width) of the frame as it came. Maps of another size say nothing about it, and anybody
                can send one that has a thousand times as many pixels.
        """
        if self.gap:
            return FoldedMap(cache_map=None, gap=self.gap)
        last = self.links[-1]
        if last.cache_map.image_size != image_size:
            return FoldedMap(cache_map=None, gap=OTHER_SIZE)
        if any(link.cache_map.image_size != image_size for link in self.links):
            nothing = CacheMap.nothing(image_size, last.cache_map.block_size, "the image size changed")
            return FoldedMap(cache_map=nothing)
        with guarded(f"cache map {last.sequence} of {last.session!r}"):
            return FoldedMap(cache_map=fold([link.cache_map for link in self.links]))
        return FoldedMap(cache_map=None, gap=UNUSABLE)


class CacheChain:
    """Follows the maps from what a cache holds: this is the consumer's end of the chain."""

    def __init__(self, kept: int = MAPS_KEPT) -> None:
        """Begin with an empty cache; ``kept``: how many maps are held, at most."""
        self._kept = kept
        self._links: OrderedDict[int, MapUpdate] = OrderedDict()  # by sequence, of one session
        self._session = ""
        self._held_stamp_ns: int | None = None
        self._held_sequence: int | None = None

    def add(self, link: MapUpdate) -> None:
        """Add a map from the matcher. A new session, or a stamp that is not later, discards the maps before it."""
        last = next(reversed(self._links.values()), None)
        if link.session != self._session or (last is not None and link.stamp_ns <= last.stamp_ns):
            self._links.clear()
        if link.session != self._session:
            self._session = link.session
            if self._held_sequence is not None:
                self.invalidate()
        self._links[link.sequence] = link
        while len(self._links) > self._kept:
            self._links.popitem(last=False)

    def find(self, stamp_ns: int) -> MapUpdate | None:
        """Return the map of the frame with this stamp; None where it is not here."""
        return next((link for link in reversed(self._links.values()) if link.stamp_ns == stamp_ns), None)

    @property
    def stamps(self) -> set[int]:
        """The stamps of the frames whose maps are here."""
        return {link.stamp_ns for link in self._links.values()}

    def path(self, stamp_ns: int) -> MapPath:
        """Find the maps that lead from what the cache holds to the frame with this stamp."""
        link = self.find(stamp_ns)
        if link is None:
            return MapPath(gap=LATE)
        if self._held_stamp_ns is None and not link.starts_anew:
            return MapPath(gap=EMPTY, own=link)
        links = [link]
        while not self._leads_from_cache(links[-1]):
            earlier = self._links.get(links[-1].reference_sequence)
            if earlier is None:
                return MapPath(gap=BROKEN, own=link)
            links.append(earlier)
        return MapPath(links=tuple(reversed(links)), own=link)

    def mark_cached(self, stamp_ns: int, path: MapPath) -> None:
        """Note that the cache now holds a frame; maps up to its own are dropped.

        Args:
            stamp_ns: the frame's stamp.
            path: the path by which it was computed. A map with the same stamp may have come since for another frame.
        """
        own = path.own if path.own is not None and path.own.session == self._session else None
        self._held_stamp_ns = stamp_ns
        self._held_sequence = own.sequence if own else None
        if own is not None:
            for sequence in [s for s in self._links if s <= own.sequence]:
                del self._links[sequence]

    def invalidate(self) -> None:
        """Note that the cache holds nothing any more."""
        self._held_stamp_ns = self._held_sequence = None

    def invalidate_from(self, stamp_ns: int) -> None:
        """Empty the cache, as time went back to ``stamp_ns``, and drop later maps: they belong to earlier frames."""
        self.invalidate()
        for sequence in [s for s, link in self._links.items() if link.stamp_ns > stamp_ns]:
            del self._links[sequence]

    def _leads_from_cache(self, link: MapUpdate) -> bool:
        if link.starts_anew:
            return True
        if self._held_sequence is not None:
            return link.reference_sequence == self._held_sequence
        return self._held_stamp_ns is not None and link.reference_stamp_ns == self._held_stamp_ns
