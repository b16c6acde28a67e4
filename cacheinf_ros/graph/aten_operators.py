# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What is known about ATen operators by name alone."""

from __future__ import annotations

import torch

aten = torch.ops.aten

# In inference they return their first argument.
IDENTITIES = {
    aten.alias.default, aten.alpha_dropout.default, aten.clone.default, aten.contiguous.default, aten.detach.default,
    aten.dropout.default, aten.feature_alpha_dropout.default, aten.feature_dropout.default,
    aten.lift_fresh_copy.default, aten.native_dropout.default,
}  # fmt: skip

# They return their first argument where it has the type already.
CONVERSIONS = {
    aten._to_copy.default, aten.to.device, aten.to.dtype, aten.to.dtype_layout, aten.to.other, aten.type_as.default,
}  # fmt: skip

# They depend on the shape of a tensor alone.
SHAPES = {
    aten.empty_like.default, aten.full_like.default, aten.new_empty.default, aten.new_full.default,
    aten.new_ones.default, aten.new_zeros.default, aten.ones_like.default, aten.zeros_like.default,
}  # fmt: skip

# They return nothing.
CHECKS = {aten._assert_tensor_metadata.default}

# They move, repeat or drop elements of their first argument and compute nothing.
MOVES = {
    aten._unsafe_view.default, aten.broadcast_to.default, aten.channel_shuffle.default, aten.chunk.default,
    aten.expand.default, aten.flatten.using_ints, aten.flip.default, aten.index.Tensor, aten.index_select.default,
    aten.movedim.int, aten.movedim.intlist, aten.narrow.default, aten.permute.default, aten.pixel_shuffle.default,
    aten.pixel_unshuffle.default, aten.repeat.default, aten.repeat_interleave.self_int, aten.reshape.default,
    aten.roll.default, aten.rot90.default, aten.select.int, aten.slice.Tensor, aten.split.Tensor,
    aten.split_with_sizes.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.swapaxes.default,
    aten.t.default, aten.tile.default, aten.transpose.int, aten.unbind.int, aten.unflatten.int, aten.unfold.default,
    aten.unsqueeze.default, aten.view.default,
}  # fmt: skip

# Global by their nature: nothing to warn about.
GLOBALS = {
    aten.argmax.default, aten.argmin.default, aten.baddbmm.default, aten.bmm.default, aten.cumsum.default,
    aten.einsum.default, aten.group_norm.default, aten.max.default, aten.mean.default, aten.min.default,
    aten.native_group_norm.default, aten.nonzero.default, aten.scaled_dot_product_attention.default,
    aten.sort.default, aten.sum.default, aten.topk.default,
}  # fmt: skip

# Computed from completed tensors like GLOBALS, but no core operators; some could perhaps be local: the user is told.
OTHERS = {
    aten.argsort.default, aten.cdist.default, aten.conv1d.default, aten.floor_divide.default,
    aten.grid_sampler.default, aten.masked_fill.Scalar, aten.masked_fill.Tensor, aten.max_pool1d.default,
    aten.one_hot.default, aten.sort.stable, aten.take_along_dim.default, aten.tril.default, aten.triu.default,
    aten.where.Scalar, aten.where.ScalarOther, aten.where.ScalarSelf,
}  # fmt: skip


def is_core(operator: torch._ops.OpOverload) -> bool:
    """Tell whether this is one of torch's core operators that compute tensors from tensors and check arguments."""
    schema = operator._schema
    name = schema.name.removeprefix("aten::")
    return (
        torch.Tag.core in operator.tags
        and not schema.is_mutable
        and not name.startswith("_")
        and not name.endswith("_backward")
        and any("Tensor" in str(argument.type) for argument in schema.arguments)
    )
