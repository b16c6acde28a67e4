# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Collect the operators of a graph while a program is translated."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch

from cacheinf_ros.graph.ir import (
    Concat,
    Global,
    Operator,
    PixelShuffle,
    Resample,
    Select,
    TensorRef,
    TensorSpec,
    references,
)
from cacheinf_ros.graph.lowering.index_patterns import Part, Selection, as_parts, as_selection, as_shuffle
from cacheinf_ros.graph.lowering.view import Replay, Shape, View
from cacheinf_ros.graph.make_taps import taps_at

Result = TypeVar("Result")


class NotLocal(Exception):
    """No local operator computes this call: it becomes a global one."""


class Builder:
    """The graph that was built so far.

    Attributes:
        node: name of the call that is being translated; operators are named after it.
        shape: shape of that call's result.
    """

    def __init__(self) -> None:
        self.operators: list[Operator] = []
        self.tensors: dict[str, TensorSpec] = {}
        self.node = ""
        self.shape: Shape = ()
        self._maps: dict[tuple[str, Shape, bytes], View] = {}  # by source and elements: views that were made maps
        self._replays: dict[View, View] = {}  # views that a global operator completed
        self._results: set[str] = set()
        self._others: dict[str, torch.dtype] = {}  # types of the tensors that are not of float32

    def declare(self, name: str, shape: Shape, dtype: torch.dtype = torch.float32) -> View:
        """Add a new tensor, and return a view of it."""
        spec = TensorSpec(name=name, shape=shape)
        self.tensors[name] = spec
        if dtype != torch.float32:
            self._others[name] = dtype
        return View.of(spec)

    def emit(self, kind: type[Operator], inputs: Sequence[View], shape: Shape, **fields: Any) -> View:
        """Add an operator on whole tensors, and return its result."""
        assert all(view.is_whole for view in inputs)
        output = self.declare(self._new_name(), shape)
        names = tuple(view.source.name for view in inputs)
        self.operators.append(kind(name=self.node, inputs=names, output=output.source.name, **fields))
        return output

    def call(
        self,
        target: Callable[..., Any],
        arguments: Any,
        keywords: dict[str, Any],
        *,
        label: str,
        known: bool,
        shape: Shape,
        dtype: torch.dtype = torch.float32,
    ) -> View:
        """Add a global operator, and return its result; views among its arguments are completed first.

        Args:
            label: the operator's ATen name.
        """
        arguments, keywords = self._completed_arguments(arguments), self._completed_arguments(keywords)
        output = self.declare(self._new_name(), shape, dtype)
        self.operators.append(
            Global(
                name=self.node,
                inputs=references((arguments, keywords)),
                output=output.source.name,
                call=target,
                arguments=arguments,
                keywords=keywords,
                target=label,
                known=known,
            )
        )
        return output

    def is_float_map(self, view: View) -> bool:
        """Tell whether the view's source is a feature map of float32."""
        return view.source.is_map and view.source.name not in self._others

    def is_made_locally(self, view: View) -> bool:
        """Tell whether the view's source is the input or made by a local operator."""
        return not any(isinstance(o, Global) and o.output == view.source.name for o in self.operators)

    def feature_map(self, view: View) -> View:
        """Return the view, of one image or vector, as a map that only local operators make.

        A vector may become a map of one pixel.

        Raises:
            NotLocal: there are no such operators.
        """
        try:
            return self._map_at_once(view)
        except NotLocal:
            return self.feature_map(self.begun(view))

    def begun(self, view: View) -> View:
        """Return the view with as many of its first moves as possible made by local operators.

        Raises:
            NotLocal: none of its first moves can be.
        """
        for count in range(len(view.moves) - 1, 0, -1):
            first = view.first(count)
            try:
                made = self._map_at_once(first)
            except NotLocal:
                continue
            if made.shape == first.shape:
                return replace(view, source=made.source, moves=view.moves[count:])
        raise NotLocal

    def completed(self, view: View) -> View:
        """Return the view as a whole tensor of its own shape, by a global operator where there is no other way."""
        if view.is_whole:
            return view
        try:
            local = self.feature_map(view)
        except NotLocal:
            return self._replayed(view)
        return local if local.shape == view.shape else self._replayed(view)

    def image(self, view: View) -> View:
        """Return the view [1, channels, height, width] as a map, by a global operator where there is no other way.

        Raises:
            NotLocal: the view is no map.
        """
        if len(view.shape) != 4 or view.shape[0] != 1 or view.source.name in self._others:
            raise NotLocal
        try:
            return self.feature_map(view)
        except NotLocal:
            return self._replayed(view)

    def select(self, source: View, channels: Sequence[int]) -> View:
        """Select channels of a whole map, of a selection among those that it selects from."""
        made = next((o for o in self.operators if o.output == source.source.name), None)
        if isinstance(made, Select):
            return self.select(View.of(self.tensors[made.inputs[0]]), [made.channels[c] for c in channels])
        if tuple(channels) == tuple(range(source.source.channels)):
            return source
        shape = (1, len(channels), *source.shape[2:])
        return self.emit(Select, (source,), shape, channels=tuple(int(c) for c in channels))

    def result(self, view: View) -> View:
        """Return the view as a result of the model: as :meth:`completed` does, or a map of one pixel made a vector."""
        try:
            local = self.feature_map(view)
        except NotLocal:
            return self.completed(view)
        name = local.source.name
        if self.tensors[name].shape != view.shape:
            if not self._is_unseen(name):
                return self._replayed(View.of(self.tensors[name]).reshaped(view.shape))
            self.tensors[name] = TensorSpec(name=name, shape=view.shape)
        self._results.add(name)
        return View.of(self.tensors[name])

    def _is_unseen(self, name: str) -> bool:
        """Tell whether nobody cares which shape the tensor has: local operators do not."""
        made_here = any(o.output == name and not isinstance(o, Global) for o in self.operators)
        seen = any(isinstance(o, Global) and name in o.inputs for o in self.operators)
        return made_here and not seen and name not in self._results

    def _new_name(self) -> str:
        name, count = self.node, 0
        while name in self.tensors:
            count += 1
            name = f"{self.node}.{count}"
        return name

    def _completed_arguments(self, arguments: Any) -> Any:
        if isinstance(arguments, View):
            return TensorRef(self.completed(arguments).source.name)
        if isinstance(arguments, dict):
            return {key: self._completed_arguments(value) for key, value in arguments.items()}
        if isinstance(arguments, (tuple, list)):
            return type(arguments)(self._completed_arguments(item) for item in arguments)
        return arguments

    def _replayed(self, view: View) -> View:
        if view not in self._replays:
            label = str(view.moves[-1].target)
            dtype = self._others.get(view.source.name, torch.float32)
            self._replays[view] = self.call(
                Replay(view.moves), (View.of(view.source),), {}, label=label, known=True, shape=view.shape, dtype=dtype
            )
        return self._replays[view]

    def _map_at_once(self, view: View) -> View:
        if len(view.shape) not in (2, 4) or view.shape[0] != 1 or not view.numel or not self.is_float_map(view):
            raise NotLocal
        if view.is_whole:
            return view
        index = view.index().view(*view.shape[1:], *(1, 1)[: 4 - len(view.shape)])
        key = (view.source.name, view.shape, hashlib.sha256(index.numpy().tobytes()).digest())
        if key not in self._maps:
            self._maps[key] = self._moved(View.of(view.source), index)
        return self._maps[key]

    def _moved(self, source: View, index: torch.Tensor) -> View:
        """Add the local operators that make a map from the index of its elements [channels, height, width]."""
        size = source.source.size
        selection = as_selection(index, size)
        if selection is not None:
            return self._selected(source, selection)
        if index.shape[1:] == (1, 1):
            raise NotLocal  # a flattened map
        shuffle = as_shuffle(index, size)
        if shuffle is not None:
            selected = self._selected(source, shuffle.selection)
            shape = (1, *index.shape)
            fields = {"factor": shuffle.factor, "phase_major": shuffle.phase_major}
            return self.emit(PixelShuffle, (selected,), shape, **fields)
        parts = as_parts(index, size)
        if parts is None:
            raise NotLocal
        return self._assembled(source, parts)

    def _selected(self, source: View, selection: Selection) -> View:
        result = self.select(source, selection.channels.tolist())
        height, width = size = source.source.size
        if selection.keeps_pixels(size):
            return result
        shape = (*result.shape[:2], len(selection.rows), len(selection.columns))
        rows, columns = taps_at(selection.rows, height), taps_at(selection.columns, width)
        return self.emit(Resample, (result,), shape, rows=rows, columns=columns)

    def _assembled(self, source: View, parts: list[Part]) -> View:
        selected = [self._selected(source, part.selection) for part in parts]
        order = torch.cat([part.positions for part in parts])
        whole = self.emit(Concat, selected, (1, len(order), *selected[0].shape[2:]))
        return self.select(whole, order.argsort().tolist())


def first_local(*attempts: Callable[[], Result]) -> Result:
    """Return the result of the first attempt that is local.

    Raises:
        NotLocal: none is.
    """
    for attempt in attempts:
        try:
            return attempt()
        except NotLocal:
            continue
    raise NotLocal
