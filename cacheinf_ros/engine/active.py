"""Active sets: which pixels of each tensor are computed for a frame, and how the sets grow through windows.

The sets of a graph are planned once (:class:`ActivePlan`): operators with the same inputs and the same window share
one, and none is allocated while frames are processed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.graph.window import Window, reusable_rectangles

Size = tuple[int, int]


class ActiveSet:
    """The pixels of a tensor that are computed for this frame.

    Attributes:
        size: (height, width).
        mask: uint8 [height, width], 1 where active.
        rows: int32, indices of the active pixels in row-major order, as a view of the first :attr:`count` entries.
        rectangles: int64 [n, 4], the reusable rectangles that led to the mask, where rectangles are used; empty
            ones keep their place, so that sets of one frame correspond row by row.
    """

    __slots__ = ("_rows", "all_rows", "count", "mask", "rectangles", "rows", "size")

    def __init__(self, size: Size) -> None:
        self.size = size
        self.mask = np.ones(size, np.uint8)
        self.all_rows = np.arange(size[0] * size[1], dtype=np.int32)
        self._rows = np.empty(len(self.all_rows) + 1, np.int32)  # kernels write one past the last
        self.rows = self.all_rows
        self.count = len(self.rows)
        self.rectangles = np.zeros((0, 4), np.int64)

    @property
    def pixels(self) -> int:
        """Active or not."""
        return len(self.all_rows)

    @property
    def row_buffer(self) -> NDArray[np.int32]:
        """int32 [pixels + 1]: where indices are written before :meth:`use_buffer`."""
        return self._rows

    def use_buffer(self, count: int) -> None:
        """Take the first ``count`` entries of the buffer as the active rows."""
        self.rows = self.all_rows if count == self.pixels else self._rows[:count]
        self.count = count

    def fill(self) -> None:
        """Everything is active."""
        self.mask.fill(1)
        self.rows, self.count = self.all_rows, self.pixels
        self.rectangles = np.zeros((0, 4), np.int64)

    def use_mask(self) -> None:
        """Derive the rows from the mask."""
        rows = np.flatnonzero(self.mask.view(np.bool_).ravel())  # numpy is much faster on bool
        self._rows[: len(rows)] = rows
        self.use_buffer(len(rows))

    def use_rectangles(self, rectangles: NDArray[np.int64]) -> None:
        """Everything is active but the pixels of these reusable rectangles."""
        self.rectangles = rectangles
        self.mask.fill(1)
        for x, y, width, height in rectangles[(rectangles[:, 2] > 0) & (rectangles[:, 3] > 0)].tolist():
            self.mask[y : y + height, x : x + width] = 0
        self.use_mask()


class Grow(Protocol):
    """Fills ``target`` with the outputs of a window that depend on an active pixel of ``source``."""

    def __call__(self, source: ActiveSet, target: ActiveSet) -> None:
        """Fill mask, rows and count of the target."""


class GrowKernels(Protocol):
    """What the plan needs from the kernels."""

    def grow(self, window: Window) -> Grow:
        """Prepare the growth through a window."""


class ActivePlan:
    """Which set belongs to which tensor, and in which order they are filled."""

    def __init__(self, kernels: GrowKernels, input_size: Size) -> None:
        self._kernels = kernels
        self.input = ActiveSet(input_size)
        self._sets: list[ActiveSet] = [self.input]
        self._grown: dict[tuple[int, Window], ActiveSet] = {}
        self._united: dict[frozenset[int], ActiveSet] = {}
        self._steps: list[_Growth | _Union] = []

    @property
    def sets(self) -> Sequence[ActiveSet]:
        """Every set of the plan, the input's first."""
        return self._sets

    def grown(self, source: ActiveSet, window: Window) -> ActiveSet:
        """The set of a window's outputs."""
        if window.is_pointwise:
            return source
        key = (id(source), window)
        if key not in self._grown:
            target = self._new(window.out_size)
            self._grown[key] = target
            self._steps.append(_Growth(source, target, window, self._kernels.grow(window)))
        return self._grown[key]

    def united(self, sources: Sequence[ActiveSet]) -> ActiveSet:
        """The set of an operator that reads several tensors of the same size."""
        distinct = list({id(source): source for source in sources}.values())
        if len(distinct) == 1:
            return distinct[0]
        key = frozenset(map(id, distinct))
        if key not in self._united:
            target = self._new(distinct[0].size)
            self._united[key] = target
            self._steps.append(_Union(distinct, target))
        return self._united[key]

    def always(self, size: Size) -> ActiveSet:
        """The set of a tensor that changes everywhere with every frame: it stays full."""
        return self._new(size)

    def fill(self) -> None:
        """Everything is active."""
        for active in self._sets:
            active.fill()

    def spread_exactly(self) -> None:
        """From the input's mask: an output is active when anything it depends on is."""
        for step in self._steps:
            step.exactly()

    def spread_rectangles(self, *, padding_is_reusable: bool) -> None:
        """From the input's rectangles: an output is reusable when all it depends on lies in one rectangle."""
        for step in self._steps:
            step.by_rectangles(padding_is_reusable)

    def _new(self, size: Size) -> ActiveSet:
        self._sets.append(ActiveSet(size))
        return self._sets[-1]


class _Growth:
    def __init__(self, source: ActiveSet, target: ActiveSet, window: Window, grow: Grow) -> None:
        self._source, self._target, self._window, self._grow = source, target, window, grow

    def exactly(self) -> None:
        if self._source.count == self._source.pixels:
            self._target.fill()
        else:
            self._grow(self._source, self._target)

    def by_rectangles(self, padding_is_reusable: bool) -> None:
        self._target.use_rectangles(
            reusable_rectangles(self._source.rectangles, self._window, padding_is_reusable=padding_is_reusable)
        )


class _Union:
    def __init__(self, sources: list[ActiveSet], target: ActiveSet) -> None:
        self._sources, self._target = sources, target

    def exactly(self) -> None:
        np.copyto(self._target.mask, self._sources[0].mask)
        for source in self._sources[1:]:
            np.bitwise_or(self._target.mask, source.mask, out=self._target.mask)
        self._target.use_mask()

    def by_rectangles(self, padding_is_reusable: bool) -> None:
        if any(len(source.rectangles) != len(self._sources[0].rectangles) for source in self._sources):
            self._target.fill()  # one of them changes everywhere
            return
        corners = [_corners(source.rectangles) for source in self._sources]
        first = np.maximum.reduce([c[:, :2] for c in corners])
        last = np.minimum.reduce([c[:, 2:] for c in corners])
        self._target.use_rectangles(np.concatenate([first, np.maximum(last - first, 0)], axis=1))


def _corners(rectangles: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([rectangles[:, :2], rectangles[:, :2] + rectangles[:, 2:]], axis=1)
