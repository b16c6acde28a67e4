# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Rewrites of element-wise operators: what they take in, and where they move to."""

from __future__ import annotations

from dataclasses import replace

import torch

from cacheinf_ros.graph.activation import LINEAR
from cacheinf_ros.graph.fusing.rewriting import Done, Rewrite
from cacheinf_ros.graph.fusing.written_out import is_all
from cacheinf_ros.graph.ir import ChannelNorm, Conv, Elementwise, PixelShuffle, Resample, TensorSpec
from cacheinf_ros.graph.make_taps import is_single, reads_outside


def nothing_done(done: Done, operator: Elementwise) -> Rewrite | None:
    """Replace an operator that does nothing by the tensor itself."""
    if operator.combine is not None or not _is_identity(operator):
        return None
    same = done.tensors[operator.output].shape == done.tensors[operator.inputs[0]].shape
    return Rewrite(same_as=operator.inputs[0]) if same else None


def two_in_one(done: Done, operator: Elementwise) -> Rewrite | None:
    """Rewrite activation((any operator without activation) * scale + shift) as one operator."""
    first = done.sole(operator.inputs[0], Elementwise) if operator.combine is None else None
    if first is None or not first.activation.is_linear:
        return None
    scale = first.scale if operator.scale is None else _times(first.scale, operator.scale)
    shift = first.shift if first.shift is None or operator.scale is None else _times(first.shift, operator.scale)
    if operator.shift is not None:
        shift = operator.shift if shift is None else shift + operator.shift
    merged = replace(first, output=operator.output, scale=scale, shift=shift, activation=operator.activation)
    return Rewrite(absorbed=(first,), operators=(merged,))


def into_norm(done: Done, operator: Elementwise) -> Rewrite | None:
    """Rewrite norm(x) * scale + shift: the norm takes both in."""
    norm = done.sole(operator.inputs[0], ChannelNorm) if operator.combine is None else None
    if norm is None or not operator.is_affine:
        return None
    scale = torch.ones_like(norm.weight) if operator.scale is None else operator.scale
    shift = torch.zeros_like(norm.bias) if operator.shift is None else operator.shift
    merged = replace(norm, weight=norm.weight * scale, bias=norm.bias * scale + shift)
    if operator.activation.is_linear:
        return Rewrite(absorbed=(norm,), operators=(replace(merged, output=operator.output),))
    return Rewrite(absorbed=(norm,), operators=(merged, replace(operator, scale=None, shift=None)))


def before_moves(done: Done, operator: Elementwise) -> Rewrite | None:
    """Compute a function of moved pixels before they move, where a convolution takes it in there."""
    if operator.combine is not None or not _ends_in_conv(done, operator.inputs[0]):
        return None
    move = done.operators[operator.inputs[0]]
    earlier = _unshuffled(operator, move) if isinstance(move, PixelShuffle) else operator
    between = TensorSpec(name=move.output, shape=done.tensors[move.inputs[0]].shape)
    return Rewrite(
        absorbed=(move,),
        operators=(
            replace(earlier, inputs=move.inputs, output=between.name),
            replace(move, inputs=(between.name,), output=operator.output),
        ),
        tensors=(between,),
    )


def _is_identity(operator: Elementwise) -> bool:
    """Tell whether the operator with one input leaves its values alone, but for rounding."""
    return (
        operator.activation.is_linear
        and (operator.scale is None or is_all(operator.scale, 1))
        and (operator.shift is None or not operator.shift.any())
    )


def _times(vector: torch.Tensor | None, scale: torch.Tensor) -> torch.Tensor:
    return scale if vector is None else vector * scale


def _ends_in_conv(done: Done, name: str) -> bool:
    """Tell whether moves of pixels that nobody else reads lead back to a convolution without activation."""
    conv = done.sole(name, Conv)
    if conv is not None:
        return len(conv.inputs) == 1 and conv.activation.is_linear
    resample = done.sole(name, Resample)
    moves_only = resample is not None and all(
        is_single(taps) and not reads_outside(taps) for taps in (resample.rows, resample.columns)
    )
    move = resample if moves_only else done.sole(name, PixelShuffle)
    return move is not None and _ends_in_conv(done, move.inputs[0])


def _unshuffled(operator: Elementwise, move: PixelShuffle) -> Elementwise:
    """Return the operator with its constants in the order of the channels before the shuffle."""
    phases = move.factor**2

    def spread(vector: torch.Tensor | None) -> torch.Tensor | None:
        if vector is None:
            return None
        return vector.repeat(phases) if move.phase_major else vector.repeat_interleave(phases)

    activation = operator.activation
    if activation is not LINEAR and activation.slope is not None:
        activation = replace(activation, slope=spread(activation.slope))
    return replace(operator, scale=spread(operator.scale), shift=spread(operator.shift), activation=activation)
