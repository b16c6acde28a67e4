# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Rewrites of selections and concatenations of channels."""

from __future__ import annotations

from dataclasses import replace

from cacheinf_ros.graph.fusing.rewriting import Done, Rewrite
from cacheinf_ros.graph.ir import Concat, Select


def all_channels(done: Done, select: Select) -> Rewrite | None:
    """Replace a selection of all channels in order by the tensor itself."""
    source = done.tensors[select.inputs[0]]
    same = select.channels == tuple(range(source.channels)) and done.tensors[select.output].shape == source.shape
    return Rewrite(same_as=source.name) if same else None


def two_selections(done: Done, select: Select) -> Rewrite | None:
    """Combine two selections of channels into one."""
    first = done.made_by(select.inputs[0], Select)
    if first is None:
        return None
    channels = tuple(first.channels[c] for c in select.channels)
    return Rewrite(operators=(replace(select, inputs=first.inputs, channels=channels),))


def of_one_part(done: Done, select: Select) -> Rewrite | None:
    """Select from one input of a concatenation, where all channels come from that."""
    concat = done.made_by(select.inputs[0], Concat)
    if concat is None:
        return None
    start, lowest, highest = 0, min(select.channels), max(select.channels)
    for name in concat.inputs:
        end = start + done.tensors[name].channels
        if start <= lowest and highest < end:
            channels = tuple(c - start for c in select.channels)
            return Rewrite(operators=(replace(select, inputs=(name,), channels=channels),))
        start = end
    return None


def one_part(done: Done, concat: Concat) -> Rewrite | None:
    """Replace a concatenation of one tensor by the tensor itself."""
    same = done.tensors[concat.inputs[0]].shape == done.tensors[concat.output].shape
    return Rewrite(same_as=concat.inputs[0]) if len(concat.inputs) == 1 and same else None


def longer_than(done: Done, concat: Concat) -> Rewrite | None:
    """Build a concatenation that begins like another from that and the rest, so that all share memory (DenseNet)."""
    best: Concat | None = None
    for other in done.operators.values():
        if not isinstance(other, Concat) or concat.inputs[: len(other.inputs)] != other.inputs:
            continue
        if best is None or len(other.inputs) > len(best.inputs):
            best = other
    if best is None:
        return None
    rest = concat.inputs[len(best.inputs) :]
    return Rewrite(operators=(replace(concat, inputs=(best.output, *rest)),))
