# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The memory of a program's feature maps: those that are kept between frames, and those that share an arena."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy

import torch

from cacheinf_ros.engine.buffers import MapBuffer, MapShape, allocate_maps, maps_at
from cacheinf_ros.engine.caching import Caching
from cacheinf_ros.engine.execution.strips import Segment
from cacheinf_ros.engine.layout import Layout
from cacheinf_ros.memory import TensorRecord

_SEARCH_S = 2.0  # seconds of search for a smaller arena than the greedy strategies find, where there may be one


class FeatureMaps(Mapping[str, MapBuffer]):
    """Holds all maps by tensor; a map that is not kept has valid values only while a frame needs it.

    Attributes:
        kept: the maps that are kept between frames, without those that are part of another one.
        arena_bytes: the size of the block in which the maps lie that are not kept.
    """

    def __init__(
        self,
        layout: Layout,
        caching: Caching,
        lifetimes: Sequence[TensorRecord],
        device: torch.device,
        segments: Sequence[Segment] = (),
        cameras: int = 1,
    ) -> None:
        """Allocate the maps: those that are kept one behind the other, the others where the memory planner places them.

        Where its greedy strategies leave room, a smaller arena is searched for :data:`_SEARCH_S` seconds.

        Args:
            lifetimes: when each map that is not kept is used.
            segments: the operators that are computed strip by strip; some of their maps have only as many rows as a
                strip needs.
            cameras: the number of cameras, whose maps of one tensor lie below one another: see :meth:`of`.
        """
        self._cameras = cameras
        self._layout = layout
        self._lines = {name: lines for segment in segments for name, lines in segment.buffers.items()}
        self._maps: dict[str, MapBuffer] = {}
        self.arena_bytes = 0
        kept = [name for name in layout.maps if name not in layout.views and name not in caching.dropped]
        self.kept = allocate_maps(self._shapes(kept), device)
        self._maps.update(zip(kept, self.kept, strict=True))
        if lifetimes:
            self._allocate_arena(lifetimes, device)
        for name in layout.maps:
            if layout.root(name) in self._maps:  # otherwise nobody reads it
                self._view(name)

    def of(self, camera: int) -> FeatureMaps:
        """Return the maps of one of the cameras, with its share of the arena."""
        part = copy(self)
        part._cameras, part.arena_bytes = 1, self.arena_bytes // self._cameras
        part.kept = [buffer.part(camera, self._cameras) for buffer in self.kept]
        part._maps = {name: buffer.part(camera, self._cameras) for name, buffer in self._maps.items()}
        return part

    @property
    def cache_bytes(self) -> int:
        """The bytes of the feature maps that are kept."""
        return sum(buffer.pixels.numel() * buffer.pixels.element_size() for buffer in self.kept)

    def move(self, dx: float, dy: float) -> None:
        """Move every kept map by a shift given in pixels of the input, rounded to its own pixels."""
        height, width = self[self._layout.graph.input].size
        for buffer in self.kept:
            buffer.move(round(dx * buffer.size[1] / width), round(dy * buffer.size[0] / height))

    def __getitem__(self, tensor: str) -> MapBuffer:
        return self._maps[tensor]

    def __iter__(self) -> Iterator[str]:
        return iter(self._maps)

    def __len__(self) -> int:
        return len(self._maps)

    def _allocate_arena(self, lifetimes: Sequence[TensorRecord], device: torch.device) -> None:
        from cacheinf_ros.memory.optimal import optimal  # here: it loads numba, and often all maps are kept

        placement = optimal(lifetimes, time_limit_s=_SEARCH_S).placement
        self.arena_bytes = self._cameras * placement.size
        offsets = [self._cameras * offset for offset in placement.offsets]
        names = [record.name for record in lifetimes]
        arena = maps_at(offsets, self.arena_bytes, self._shapes(names), device)
        self._maps.update(zip(names, arena, strict=True))

    def _shapes(self, names: Sequence[str]) -> list[MapShape]:
        specs = [self._layout.spec(name) for name in names]
        return [
            MapShape(
                size=(self._cameras * self._lines.get(name, spec.size[0]), spec.size[1]),
                channels=spec.channels,
                levels=spec.levels,
                floats=spec.floats,
            )
            for name, spec in zip(names, specs, strict=True)
        ]

    def _view(self, tensor: str) -> MapBuffer:
        if tensor not in self._maps:
            view = self._layout.views[tensor]
            self._maps[tensor] = self._view(view.owner).channels(view.first, view.count)
        return self._maps[tensor]
