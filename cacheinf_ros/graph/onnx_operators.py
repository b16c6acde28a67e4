# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Translate the ONNX operators of convolutional networks to torch calls.

Each takes the node's inputs and its attributes by their ONNX names. Tensors are torch tensors; shapes and indices
are numpy arrays, known when the model is exported.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce as fold
from typing import Any

import numpy as np
import torch
from onnx import TensorProto, helper
from torch.nn import functional

from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph import onnx_resize as resizing
from cacheinf_ros.graph import onnx_windows as windows
from cacheinf_ros.graph.onnx_input import FLOATS

Tensor = torch.Tensor

_HARD_SWISH_SLOPE = 1 / 6
_SELU_ALPHA, _SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875  # ONNX' defaults


def _batch_norm(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, *, epsilon: float = 1e-5,
    training_mode: int = 0, **_: Any,
) -> Tensor:  # fmt: skip
    if training_mode:
        raise ModelError("the ONNX operator BatchNormalization in training mode is not supported: export for inference")
    return functional.batch_norm(x, mean, variance, scale, bias, False, 0.0, epsilon)


def _layer_norm(
    x: Tensor, scale: Tensor, bias: Tensor | None = None, *, axis: int = -1, epsilon: float = 1e-5, **_: Any
) -> Tensor:
    return functional.layer_norm(x, x.shape[axis % x.dim() :], scale, bias, epsilon)


def _local_response_norm(x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    if size % 2 == 0:
        raise ModelError(f"LRN over {size} channels: torch has the one without a partner on the other side")
    return functional.local_response_norm(x, size, alpha, beta, bias)


def _clip(x: Tensor, low: Any = None, high: Any = None, **limits: float) -> Tensor:
    bounds = [limits.get(name) if given is None else float(given) for name, given in (("min", low), ("max", high))]
    return x if bounds == [None, None] else torch.clamp(x, *bounds)


def _pow(x: Tensor, exponent: np.ndarray) -> Tensor:
    values = np.unique(exponent)
    if len(values) != 1:
        raise ModelError(f"the ONNX operator Pow with {len(values)} different exponents is not supported")
    return torch.pow(x, float(values[0]))


def _selu(x: Tensor, *, alpha: float = _SELU_ALPHA, gamma: float = _SELU_GAMMA) -> Tensor:
    if (alpha, gamma) == (_SELU_ALPHA, _SELU_GAMMA):
        return functional.selu(x)
    return functional.elu(x, alpha) * gamma


def _hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    if abs(alpha - _HARD_SWISH_SLOPE) < 1e-6 and beta == 0.5:
        return functional.hardsigmoid(x)
    return torch.clamp(x * alpha + beta, 0.0, 1.0)


def _gemm(
    a: Tensor, b: Tensor, c: Tensor | None = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0,
    transB: int = 0,
) -> Tensor:  # fmt: skip
    if transB and not transA and alpha == beta == 1.0:
        return functional.linear(a, b, c)
    product = alpha * ((a.t() if transA else a) @ (b.t() if transB else b))
    return product if c is None else product + beta * c


def _reshape(x: Tensor, shape: np.ndarray, *, allowzero: int = 0) -> Tensor:
    sizes = [x.shape[i] if n == 0 and not allowzero else int(n) for i, n in enumerate(shape)]
    return x.reshape(sizes)


def _expand(x: Tensor, shape: np.ndarray) -> Tensor:
    return x.expand(torch.broadcast_shapes(x.shape, tuple(int(n) for n in shape)))


def _gather(x: Tensor, indices: np.ndarray, *, axis: int = 0) -> Tensor:
    if indices.ndim == 0:
        return x.select(axis, int(indices))
    axis %= x.dim()
    positions = torch.from_numpy(indices.ravel() % x.shape[axis]).long()
    return torch.index_select(x, axis, positions).reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def _slice(x: Tensor, *given: np.ndarray | None, starts: Any = None, ends: Any = None, axes: Any = None) -> Tensor:
    """Slice a tensor by ranges that are inputs; before version 10 they were attributes."""
    first, last, dims, steps = (*given, None, None, None, None)[:4] if given else (starts, ends, axes, None)
    assert first is not None and last is not None
    dims = np.arange(len(first)) if dims is None else dims
    steps = np.ones(len(first), int) if steps is None else steps
    for start, end, axis, step in zip(first, last, dims, steps, strict=True):
        chosen = range(x.shape[int(axis)])[slice(int(start), int(end), int(step))]
        if step > 0:
            x = x[(slice(None),) * (int(axis) % x.dim()) + (slice(chosen.start, chosen.stop, chosen.step),)]
        else:
            x = torch.index_select(x, int(axis), torch.tensor(list(chosen)))
    return x


def _split(
    x: Tensor, sizes: np.ndarray | None = None, *, axis: int = 0, split: Any = None, num_outputs: int = 0
) -> Any:
    sizes = split if sizes is None else sizes
    if sizes is not None:
        return torch.split(x, [int(n) for n in sizes], axis)
    return torch.chunk(x, num_outputs, axis)


def _pad(
    x: Tensor, pads: Any = None, value: Any = None, axes: Any = None, *, mode: bytes = b"constant", **old: Any
) -> Tensor:
    amounts = [int(n) for n in (old["pads"] if pads is None else pads)]
    count = len(amounts) // 2
    around = dict.fromkeys(range(x.dim()), (0, 0))
    chosen = range(count) if axes is None else [int(axis) % x.dim() for axis in axes]
    around |= {axis: (amounts[i], amounts[i + count]) for i, axis in enumerate(chosen)}
    pairs = [amount for axis in reversed(range(x.dim())) for amount in around[axis]]
    fill = old.get("value", 0.0) if value is None else float(value)
    if mode == b"constant":
        return functional.pad(x, pairs, value=fill)
    if any(pairs[4:]):
        raise ModelError(f"the ONNX operator Pad with mode {mode.decode()} is supported for height and width only")
    return functional.pad(x, pairs[:4], mode={b"reflect": "reflect", b"edge": "replicate", b"wrap": "circular"}[mode])


def _axes(given: np.ndarray | None, attribute: list[int] | None) -> list[int]:
    """Return the axes from an input, as in newer versions, or from an attribute."""
    return [int(n) for n in ((attribute or []) if given is None else given)]


def _reduce(call: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def reduce(
        x: Tensor, given: np.ndarray | None = None, *, axes: Any = None, keepdims: int = 1,
        noop_with_empty_axes: int = 0, **_: Any,
    ) -> Tensor:  # fmt: skip
        chosen = _axes(given, axes)
        if noop_with_empty_axes and not chosen:
            return x
        return call(x, dim=chosen or list(range(x.dim())), keepdim=bool(keepdims))

    return reduce


def _unsqueeze(x: Tensor, given: np.ndarray | None = None, *, axes: list[int] | None = None) -> Tensor:
    chosen = _axes(given, axes)
    for axis in sorted(axis % (x.dim() + len(chosen)) for axis in chosen):
        x = x.unsqueeze(axis)
    return x


def _flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    if axis == 1:
        return x.flatten(1)
    return x.reshape(math.prod(x.shape[: axis % x.dim() if axis < 0 else axis]), -1)


def _squeeze(x: Tensor, given: np.ndarray | None = None, *, axes: list[int] | None = None) -> Tensor:
    chosen = _axes(given, axes) or [axis for axis, size in enumerate(x.shape) if size == 1]
    return x.squeeze(tuple(chosen))


def _depth_to_space(x: Tensor, *, blocksize: int, mode: bytes = b"DCR") -> Tensor:
    if mode == b"CRD":
        return functional.pixel_shuffle(x, blocksize)
    _, channels, height, width = x.shape
    phases = x.reshape(1, blocksize, blocksize, channels // blocksize**2, height, width)
    return phases.permute(0, 3, 4, 1, 5, 2).reshape(1, -1, height * blocksize, width * blocksize)


def _space_to_depth(x: Tensor, *, blocksize: int) -> Tensor:
    _, channels, height, width = x.shape
    phases = x.reshape(1, channels, height // blocksize, blocksize, width // blocksize, blocksize)
    return phases.permute(0, 3, 5, 1, 2, 4).reshape(1, -1, height // blocksize, width // blocksize)


def _flattened(call: Callable[[Tensor, int], Tensor]) -> Callable[..., Tensor]:
    """Return softmax as it was before version 13: over all dimensions from an axis on."""
    return lambda x, axis=1: call(x.flatten(axis % x.dim()), -1).reshape(x.shape)


def _cast(x: Tensor, *, to: int, **_: Any) -> Tensor:
    if to not in FLOATS or x.dtype != torch.float32:
        raise ModelError("the ONNX operator Cast is supported only from float to float")
    return x  # all floats are computed in float32


def _rounded(
    x: Tensor, scale: np.ndarray, zero: np.ndarray | None = None, *, output_dtype: int = 0, **_: Any
) -> Tensor:
    """Return what levels stand for, as floats: DequantizeLinear, which must follow, has nothing left to do."""
    given = helper.tensor_dtype_to_np_dtype(output_dtype or TensorProto.UINT8) if zero is None else zero.dtype
    kind = np.iinfo(given) if given.kind in "iu" else None
    if np.size(scale) != 1 or kind is None or kind.bits != 8:
        raise ModelError("the ONNX operator QuantizeLinear is supported only to 8 bits, with one scale for a tensor")
    first = 0 if zero is None else int(zero.item())
    return torch.fake_quantize_per_tensor_affine(x, float(scale.item()), first, int(kind.min), int(kind.max))


def dequantised(
    values: np.ndarray, scale: np.ndarray, zero: np.ndarray | None = None, *, axis: int = 1, **_: Any
) -> np.ndarray:
    """Return what the levels of a constant stand for, float32; ``axis``: dimension of the scales, if several."""
    shape = [-1 if i == axis % values.ndim else 1 for i in range(values.ndim)] if np.size(scale) > 1 else []
    steps = values.astype(np.float64) - (0 if zero is None else zero.astype(np.float64).reshape(shape))
    return np.asarray(steps * scale.astype(np.float64).reshape(shape), np.float32)


OPERATORS: dict[str, Callable[..., Any]] = {
    "Abs": torch.abs,
    "Add": lambda a, b: a + b,
    "ArgMax": lambda x, axis=0, keepdims=1, **_: torch.argmax(x, axis, keepdim=bool(keepdims)),
    "AveragePool": windows.average_pool,
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "Celu": lambda x, alpha=1.0: functional.celu(x, alpha),
    "Clip": _clip,
    "Concat": lambda *parts, axis: torch.cat(parts, axis),
    "Conv": windows.conv,
    "ConvTranspose": windows.conv_transpose,
    "DepthToSpace": _depth_to_space,
    "DequantizeLinear": lambda x, *_, **__: x,
    "Div": lambda a, b: a / b,
    "Dropout": lambda x, *_, **__: x,
    "Elu": lambda x, alpha=1.0: functional.elu(x, alpha),
    "Erf": torch.erf,
    "Exp": torch.exp,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Gelu": lambda x, approximate=b"none": functional.gelu(x, approximate=approximate.decode()),
    "Gemm": _gemm,
    "GlobalAveragePool": lambda x: functional.adaptive_avg_pool2d(x, 1),
    "GlobalMaxPool": lambda x: torch.amax(x, (2, 3), keepdim=True),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": functional.hardswish,
    "Identity": lambda x: x,
    "InstanceNormalization": lambda x, w, b, epsilon=1e-5: functional.instance_norm(x, weight=w, bias=b, eps=epsilon),
    "LRN": _local_response_norm,
    "LayerNormalization": _layer_norm,
    "LeakyRelu": lambda x, alpha=0.01: functional.leaky_relu(x, alpha),
    "Log": torch.log,
    "LogSoftmax": lambda x, axis=-1: torch.log_softmax(x, axis),
    "MatMul": torch.matmul,
    "Max": lambda *values: fold(torch.maximum, values),
    "MaxPool": windows.max_pool,
    "Min": lambda *values: fold(torch.minimum, values),
    "Mish": functional.mish,
    "Mul": lambda a, b: a * b,
    "Neg": torch.neg,
    "PRelu": lambda x, slope: functional.prelu(x, slope.flatten()),
    "Pad": _pad,
    "Pow": _pow,
    "QuantizeLinear": _rounded,
    "Reciprocal": torch.reciprocal,
    "ReduceL2": _reduce(torch.linalg.vector_norm),
    "ReduceMax": _reduce(torch.amax),
    "ReduceMean": _reduce(torch.mean),
    "ReduceMin": _reduce(torch.amin),
    "ReduceSum": _reduce(torch.sum),
    "Relu": torch.relu,
    "Reshape": _reshape,
    "Resize": resizing.resize,
    "Selu": _selu,
    "Sigmoid": torch.sigmoid,
    "Slice": _slice,
    "Softmax": lambda x, axis=-1: torch.softmax(x, axis),
    "Softplus": functional.softplus,
    "Softsign": functional.softsign,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Sqrt": torch.sqrt,
    "Squeeze": _squeeze,
    "Sub": lambda a, b: a - b,
    "Sum": lambda *values: fold(torch.add, values),
    "Tanh": torch.tanh,
    "Transpose": lambda x, perm=None: x.permute(*(perm or reversed(range(x.dim())))),
    "Unsqueeze": _unsqueeze,
    "Upsample": resizing.upsample,
}

# Where the version of the operator set is below 13.
EARLIER_OPERATORS: dict[str, Callable[..., Any]] = {
    "LogSoftmax": _flattened(torch.log_softmax),
    "Softmax": _flattened(torch.softmax),
}
