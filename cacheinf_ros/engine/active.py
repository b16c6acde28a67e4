"""Active sets: which pixels of each tensor are computed for a frame, and how the sets grow through windows.

The sets of a graph are planned once (:class:`ActivePlan`): operators with the same inputs and the same window share
one, and none is allocated while frames are processed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.graph.window import Window

Size = tuple[int, int]


class ActiveSet:
    """The pixels of a tensor that are computed for this frame.

    Attributes:
        size: (height, width).
        mask: uint8 [height, width], 1 where active.
        rows: int32, indices of the active pixels in row-major order, as a view of the first :attr:`count` entries.
    """

    __slots__ = ("_rows", "all_rows", "count", "mask", "rows", "size")

    def __init__(self, size: Size) -> None:
        self.size = size
        self.mask = np.ones(size, np.uint8)
        self.all_rows = np.arange(size[0] * size[1], dtype=np.int32)
        self._rows = np.empty(len(self.all_rows) + 1, np.int32)  # kernels write one past the last
        self.rows = self.all_rows
        self.count = len(self.rows)

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

    def use_mask(self) -> None:
        """Derive the rows from the mask."""
        rows = np.flatnonzero(self.mask.view(np.bool_).ravel())  # numpy is much faster on bool
        self._rows[: len(rows)] = rows
        self.use_buffer(len(rows))


class Grow(Protocol):
    """Fills ``target`` with the outputs of a window that depend on an active pixel of ``source``."""

    def __call__(self, source: ActiveSet, target: ActiveSet, outside_is_active: bool) -> None:
        """Fill mask, rows and count of the target; ``outside_is_active``: what lies beside the image counts too."""


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
            self._steps.append(_Growth(source, target, self._kernels.grow(window)))
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

    def spread(self, *, outside_is_active: bool) -> None:
        """From the input's set to all others: an output is active when anything it depends on is.

        What stays are the outputs whose whole receptive field is reusable (DeepCache Table 2, applied to all
        reusable rectangles of the frame together: they share one movement, so no seam between them needs computing).

        Args:
            outside_is_active: whether padding counts as changed: so it is when the picture moves, with its border.
        """
        for step in self._steps:
            step.spread(outside_is_active)

    def _new(self, size: Size) -> ActiveSet:
        self._sets.append(ActiveSet(size))
        return self._sets[-1]


class _Growth:
    def __init__(self, source: ActiveSet, target: ActiveSet, grow: Grow) -> None:
        self._source, self._target, self._grow = source, target, grow

    def spread(self, outside_is_active: bool) -> None:
        if self._source.count == self._source.pixels:
            self._target.fill()
        else:
            self._grow(self._source, self._target, outside_is_active)


class _Union:
    def __init__(self, sources: list[ActiveSet], target: ActiveSet) -> None:
        self._sources, self._target = sources, target

    def spread(self, outside_is_active: bool) -> None:
        np.copyto(self._target.mask, self._sources[0].mask)
        for source in self._sources[1:]:
            np.bitwise_or(self._target.mask, source.mask, out=self._target.mask)
        self._target.use_mask()
