"""What the engine knows about ATen operators by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten

# One input pixel gives one output pixel, whatever the pixel.
ACTIVATIONS = {
    aten.relu.default, aten.hardtanh.default, aten.clamp.default, aten.clamp_min.default, aten.sigmoid.default,
    aten.tanh.default, aten.silu.default, aten.hardswish.default, aten.hardsigmoid.default, aten.gelu.default,
    aten.elu.default, aten.leaky_relu.default, aten.softplus.default, aten.mish.default, aten.exp.default,
    aten.sqrt.default, aten.rsqrt.default, aten.abs.default, aten.neg.default, aten.prelu.default,
}  # fmt: skip
ARITHMETIC = {
    aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.maximum.default, aten.minimum.default,
    aten.add.Scalar, aten.sub.Scalar, aten.mul.Scalar, aten.div.Scalar, aten.pow.Tensor_Scalar,
}  # fmt: skip
IDENTITIES = {
    aten.clone.default, aten.alias.default, aten.detach.default, aten.contiguous.default, aten.dropout.default,
    aten.lift_fresh_copy.default,
}  # fmt: skip
# Global by their nature: nothing to warn about.
GLOBALS = {
    aten.linear.default, aten.addmm.default, aten.mm.default, aten.view.default, aten._unsafe_view.default,
    aten.reshape.default,
    aten.flatten.using_ints, aten.adaptive_avg_pool2d.default, aten.mean.dim, aten.softmax.int,
    aten._softmax.default, aten.permute.default, aten.t.default, aten.squeeze.dim, aten.squeeze.dims,
    aten.unsqueeze.default, aten.relu.default, aten.transpose.int, aten.select.int, aten.slice.Tensor,
    aten.log_softmax.int, aten.tanh.default, aten.sigmoid.default, aten.expand.default,
}  # fmt: skip
# A view of the exported program's contiguous tensor can be impossible on ours, whose channels lie together.
ANY_LAYOUT: dict[Any, Callable[..., Any]] = {
    aten.view.default: aten.reshape.default,
    aten._unsafe_view.default: aten.reshape.default,
}
