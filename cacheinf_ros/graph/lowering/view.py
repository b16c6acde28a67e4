# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Views: a call that only moves the elements of a tensor is no operator, but a way to read the tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import torch

from cacheinf_ros.graph.ir import TensorSpec

aten = torch.ops.aten

Shape = tuple[int, ...]

# These keep the order of the elements; a channels_last tensor cannot always be viewed in that way.
_RESHAPES = {
    aten._unsafe_view.default, aten.flatten.using_ints, aten.reshape.default, aten.squeeze.default, aten.squeeze.dim,
    aten.squeeze.dims, aten.unflatten.int, aten.unsqueeze.default, aten.view.default,
}  # fmt: skip
_PERMUTATIONS = {
    aten.movedim.int, aten.movedim.intlist, aten.permute.default, aten.swapaxes.default, aten.t.default,
    aten.transpose.int,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Move:
    """A call that moves, repeats or drops elements of its first argument and computes nothing.

    Attributes:
        arguments: arguments after the tensor.
        item: which of several results is taken; None where the call has one.
        shape: shape of the result.
    """

    target: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any] = field(default_factory=dict)
    item: int | None = None
    shape: Shape = ()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Move the elements of a tensor."""
        result = self.target(x, *self.arguments, **self.keywords)
        return result if self.item is None else result[self.item]

    def is_like(self, other: Move) -> bool:
        """Tell whether both moves surely do the same."""
        if self.target is not other.target or self.item != other.item or self.shape != other.shape:
            return False
        try:
            return bool(self.arguments == other.arguments and self.keywords == other.keywords)
        except RuntimeError:  # tensors are among them
            return False


@dataclass(frozen=True, slots=True)
class Replay:
    """Moves one after another, as the call of a global operator."""

    moves: tuple[Move, ...]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Make all moves of a tensor's elements."""
        for move in self.moves:
            x = move(x)
        return x


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class View:
    """A tensor of the program: a tensor of the graph, with its elements moved.

    Moves that undo each other are left out.
    """

    source: TensorSpec
    moves: tuple[Move, ...] = ()

    @classmethod
    def of(cls, source: TensorSpec) -> View:
        """Return the view of a tensor as it is."""
        return cls(source=source)

    @property
    def shape(self) -> Shape:
        """The shape that the moves lead to."""
        return self.moves[-1].shape if self.moves else self.source.shape

    @property
    def is_whole(self) -> bool:
        """Whether nothing was moved."""
        return not self.moves

    @property
    def numel(self) -> int:
        """The number of elements of the view."""
        return prod(self.shape)

    def then(self, target: Callable[..., Any], *arguments: Any, item: int | None = None, **keywords: Any) -> View:
        """Return the view with one more move."""
        move = Move(target=target, arguments=arguments, keywords=keywords, item=item)
        shape = tuple(move(torch.empty(self.shape, device="meta")).shape)
        if target in _RESHAPES:
            return self.reshaped(shape)
        if target in _PERMUTATIONS:
            numbered = torch.empty(tuple(range(len(shape))), device="meta")  # each size names its dimension
            return self.permuted(tuple(move(numbered).shape))
        return replace(self, moves=(*self.moves, replace(move, shape=shape)))

    def reshaped(self, shape: Shape) -> View:
        """View the same elements in the same order in another shape."""
        if self.moves and self.moves[-1].target is aten.reshape.default:
            return replace(self, moves=self.moves[:-1]).reshaped(shape)
        if shape == self.shape:
            return self
        return replace(self, moves=(*self.moves, Move(target=aten.reshape.default, arguments=(shape,), shape=shape)))

    def permuted(self, order: Sequence[int]) -> View:
        """Permute dimensions: dimension i of the result is dimension order[i] of the view."""
        if self.moves and self.moves[-1].target is aten.permute.default:
            earlier = self.moves[-1].arguments[0]
            return replace(self, moves=self.moves[:-1]).permuted([earlier[dim] for dim in order])
        if list(order) == list(range(len(self.shape))):
            return self
        shape = tuple(self.shape[dim] for dim in order)
        return replace(
            self, moves=(*self.moves, Move(target=aten.permute.default, arguments=(list(order),), shape=shape))
        )

    def as_image(self) -> View:
        """View a volume [1, channels, depth, height, width] as the map [1, channels * depth, height, width]."""
        batch, channels, depth, *size = self.shape
        return self.reshaped((batch, channels * depth, *size))

    def expanded(self, shape: Shape) -> View:
        """Broadcast the view to a shape."""
        return self if shape == self.shape else self.then(aten.broadcast_to.default, shape)

    def first(self, count: int) -> View:
        """Return the view with only the first moves."""
        return replace(self, moves=self.moves[:count])

    def on(self, source: View) -> View:
        """Return a view that moves another tensor of the same shape in the same way."""
        assert source.is_whole and source.shape == self.source.shape
        return replace(self, source=source.source)

    def index(self) -> torch.Tensor:
        """Return where in the flattened source each element comes from, int64 in the view's shape."""
        return Replay(self.moves)(torch.arange(prod(self.source.shape)).view(self.source.shape))

    def moves_like(self, other: View) -> bool:
        """Tell whether both read sources of one shape in the same way."""
        if self.source.shape != other.source.shape or self.shape != other.shape:
            return False
        alike = len(self.moves) == len(other.moves) and all(map(Move.is_like, self.moves, other.moves))
        return alike or torch.equal(self.index(), other.index())


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a tensor of any shape is a feature map: one dimension has the channels, all others together the pixels.

    Attributes:
        shape: shape of the tensor.
        dim: dimension of the channels.
        size: (height, width) of the map.
    """

    shape: Shape
    dim: int
    size: tuple[int, int]

    @classmethod
    def of(cls, view: View, dim: int) -> Layout:
        """Find height and width in the view's own dimensions or in its source, if there are such."""
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
        """Return the shape of the map with this number of channels."""
        if self.is_plain:
            return (1, channels, *self.shape[2:])
        return (1, channels, *self.size)

    def to_map(self, view: View) -> View:
        """Read a view with this layout as a map."""
        return view.permuted(self._order).reshaped(self.map_shape(view.shape[self.dim]))

    def from_map(self, view: View) -> View:
        """Read a map [1, channels, ...] as a tensor with this layout, with any number of channels."""
        order = self._order
        shape = tuple(view.shape[1] if dim == self.dim else self.shape[dim] for dim in order)
        return view.reshaped(shape).permuted([order.index(dim) for dim in range(len(order))])

    @property
    def _order(self) -> list[int]:
        """The dimensions in the order in which the channels come before the pixels."""
        others = [dim for dim in range(len(self.shape)) if dim != self.dim]
        first = 1 if self.dim and self.shape[0] == 1 else 0
        return [*others[:first], self.dim, *others[first:]]
