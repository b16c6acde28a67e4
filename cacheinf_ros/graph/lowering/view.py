"""Pure views: what only moves the elements of a tensor is no operator, but a way to read the tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import torch

from cacheinf_ros.graph.ir import TensorSpec

aten = torch.ops.aten

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Move:
    """A call that moves, repeats or drops elements of its first argument and computes nothing.

    Attributes:
        arguments: after the tensor.
        item: which of several results; None of a call with one.
    """

    target: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)
    item: int | None = None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Move the elements of a tensor."""
        result = self.target(x, *self.arguments, **self.keywords)
        return result if self.item is None else result[self.item]


@dataclass(frozen=True, slots=True)
class Replay:
    """Moves one after another: the call of a global operator."""

    moves: tuple[Move, ...]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Move the elements of a tensor."""
        for move in self.moves:
            x = move(x)
        return x


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class View:
    """A tensor of the program: a tensor of the graph, with its elements moved.

    Attributes:
        shape: after the moves.
    """

    source: TensorSpec
    shape: Shape
    moves: tuple[Move, ...] = ()

    @classmethod
    def of(cls, source: TensorSpec) -> View:
        """The tensor as it is."""
        return cls(source=source, shape=source.shape)

    @property
    def is_whole(self) -> bool:
        """Whether nothing was moved."""
        return not self.moves

    @property
    def numel(self) -> int:
        """Elements of the view."""
        return prod(self.shape)

    def then(self, target: Callable[..., Any], *arguments: Any, item: int | None = None, **keywords: Any) -> View:
        """With one more move."""
        move = Move(target=target, arguments=arguments, keywords=keywords, item=item)
        shape = tuple(move(torch.empty(self.shape, device="meta")).shape)
        return replace(self, shape=shape, moves=(*self.moves, move))

    def first(self, count: int) -> View:
        """With only the first moves."""
        view = View.of(self.source)
        for move in self.moves[:count]:
            view = view.then(move.target, *move.arguments, item=move.item, **move.keywords)
        return view

    def on(self, source: View) -> View:
        """The same moves of another tensor of the same shape."""
        assert source.is_whole and source.shape == self.source.shape
        return replace(self, source=source.source)

    def reshaped(self, shape: Shape) -> View:
        """The same elements in the same order."""
        return self if shape == self.shape else self.then(aten.reshape.default, shape)

    def expanded(self, shape: Shape) -> View:
        """Broadcast."""
        return self if shape == self.shape else self.then(aten.broadcast_to.default, shape)

    def index(self) -> torch.Tensor:
        """int64, in the view's shape: where in the flattened source each element comes from."""
        return Replay(self.moves)(torch.arange(prod(self.source.shape)).view(self.source.shape))

    def moves_like(self, other: View) -> bool:
        """Whether both read sources of one shape in the same way."""
        if self.source.shape != other.source.shape or self.shape != other.shape:
            return False
        return self.moves is other.moves or torch.equal(self.index(), other.index())


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a tensor of any shape is a feature map: one dimension has the channels, all others together the pixels.

    Attributes:
        shape: of the tensor.
        dim: of the channels.
        size: (height, width) of the map.
    """

    shape: Shape
    dim: int
    size: tuple[int, int]

    @classmethod
    def of(cls, view: View, dim: int) -> Layout:
        """With the height and width of the view's own dimensions or of its source, if there are such."""
        dim %= len(view.shape)
        others = view.shape[:dim] + view.shape[dim + 1 :]
        pixels = prod(others)
        if len(others) == 3 and others[0] == 1:
            size = (others[1], others[2])
        elif view.source.is_map and view.source.pixels == pixels:
            size = view.source.size
        else:
            size = (pixels, 1)
        return cls(shape=view.shape, dim=dim, size=size)

    @property
    def is_plain(self) -> bool:
        """Whether the tensor is a feature map as it is."""
        return self.dim == 1 and self.shape[0] == 1 and len(self.shape) in (2, 4)

    def map_shape(self, channels: int) -> Shape:
        """Of the map."""
        if self.is_plain:
            return (1, channels, *self.shape[2:])
        return (1, channels, *self.size)

    def to_map(self, view: View) -> View:
        """A view with this layout, read as a map."""
        if self.is_plain:
            return view
        moved = view.then(aten.movedim.int, self.dim, 0)
        return moved.reshaped(self.map_shape(moved.shape[0]))

    def from_map(self, view: View) -> View:
        """A map of any number of channels, read as a tensor with this layout."""
        if self.is_plain:
            return view.reshaped(self.map_shape(view.shape[1]))
        others = self.shape[: self.dim] + self.shape[self.dim + 1 :]
        return view.reshaped((view.shape[1], *others)).then(aten.movedim.int, 0, self.dim)
