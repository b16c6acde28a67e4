"""The ONNX operators of convolutional networks as torch calls.

Each takes the node's inputs and its attributes by their ONNX names. Tensors are torch tensors; shapes and indices
are numpy arrays, known when the model is exported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from cacheinf_ros.errors import ModelError

Tensor = torch.Tensor


def _conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    strides: list[int] | None = None,
    pads: list[int] | None = None,
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    auto_pad: bytes = b"NOTSET",
) -> Tensor:
    x, padding = _padded(x, pads, auto_pad, 0.0)
    return functional.conv2d(x, weight, bias, tuple(strides or (1, 1)), padding, tuple(dilations or (1, 1)), group)


def _conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    strides: list[int] | None = None,
    pads: list[int] | None = None,
    dilations: list[int] | None = None,
    output_padding: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
) -> Tensor:
    pads = pads or [0, 0, 0, 0]
    if pads[:2] != pads[2:]:
        raise ModelError(f"the ONNX operator ConvTranspose with uneven padding {pads} is not supported")
    return functional.conv_transpose2d(
        x, weight, bias, tuple(strides or (1, 1)), tuple(pads[:2]), tuple(output_padding or (0, 0)), group,
        tuple(dilations or (1, 1)),
    )  # fmt: skip


def _padded(x: Tensor, pads: list[int] | None, auto_pad: bytes, value: float) -> tuple[Tensor, tuple[int, int]]:
    """Uneven padding (top, left, bottom, right) becomes an operator of its own."""
    if auto_pad not in (b"NOTSET", b"VALID"):
        raise ModelError(f"ONNX auto_pad {auto_pad.decode()} is not supported: export the model with explicit padding")
    top, left, bottom, right = pads or (0, 0, 0, 0)
    if (top, left) == (bottom, right):
        return x, (top, left)
    return functional.pad(x, (left, right, top, bottom), value=value), (0, 0)


def _max_pool(
    x: Tensor,
    *,
    kernel_shape: list[int],
    strides: list[int] | None = None,
    pads: list[int] | None = None,
    dilations: list[int] | None = None,
    ceil_mode: int = 0,
    auto_pad: bytes = b"NOTSET",
    storage_order: int = 0,
) -> Tensor:
    x, padding = _padded(x, pads, auto_pad, float("-inf"))
    return functional.max_pool2d(
        x, tuple(kernel_shape), tuple(strides or (1, 1)), padding, tuple(dilations or (1, 1)), bool(ceil_mode)
    )


def _average_pool(
    x: Tensor,
    *,
    kernel_shape: list[int],
    strides: list[int] | None = None,
    pads: list[int] | None = None,
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    auto_pad: bytes = b"NOTSET",
) -> Tensor:
    pads = pads or [0, 0, 0, 0]
    if pads[:2] != pads[2:] or auto_pad not in (b"NOTSET", b"VALID"):
        raise ModelError(f"the ONNX operator AveragePool with uneven padding {pads} is not supported")
    return functional.avg_pool2d(
        x, tuple(kernel_shape), tuple(strides or (1, 1)), tuple(pads[:2]), bool(ceil_mode), bool(count_include_pad)
    )


def _batch_norm(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, *, epsilon: float = 1e-5, **_: Any
) -> Tensor:
    return functional.batch_norm(x, mean, variance, scale, bias, False, 0.0, epsilon)


def _clip(x: Tensor, low: Any = None, high: Any = None, **limits: float) -> Tensor:
    bounds = [limits.get(name) if given is None else float(given) for name, given in (("min", low), ("max", high))]
    return torch.clamp(x, *bounds)


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


def _gather(x: Tensor, indices: np.ndarray, *, axis: int = 0) -> Tensor:
    if indices.ndim == 0:
        return x.select(axis, int(indices))
    return torch.index_select(x, axis, torch.from_numpy(indices.ravel().copy()).long()).reshape(
        *x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]
    )


def _slice(
    x: Tensor, starts: np.ndarray, ends: np.ndarray, axes: np.ndarray | None = None, steps: np.ndarray | None = None
) -> Tensor:
    axes = np.arange(len(starts)) if axes is None else axes
    steps = np.ones(len(starts), int) if steps is None else steps
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        x = x[(slice(None),) * (int(axis) % x.dim()) + (slice(int(start), int(end), int(step)),)]
    return x


def _split(
    x: Tensor, sizes: np.ndarray | None = None, *, axis: int = 0, split: Any = None, num_outputs: int = 0
) -> Any:
    sizes = split if sizes is None else sizes
    if sizes is not None:
        return torch.split(x, [int(n) for n in sizes], axis)
    return torch.chunk(x, num_outputs, axis)


def _resize(
    x: Tensor,
    roi: Any = None,
    scales: np.ndarray | None = None,
    sizes: np.ndarray | None = None,
    *,
    mode: bytes = b"nearest",
    coordinate_transformation_mode: bytes = b"half_pixel",
    nearest_mode: bytes = b"round_prefer_floor",
    **_: Any,
) -> Tensor:
    if sizes is not None and len(sizes):
        size = (int(sizes[-2]), int(sizes[-1]))
    else:
        assert scales is not None
        size = (round(x.shape[2] * float(scales[2])), round(x.shape[3] * float(scales[3])))
    corners = coordinate_transformation_mode == b"align_corners"
    if mode == b"linear" and (corners or coordinate_transformation_mode in (b"half_pixel", b"pytorch_half_pixel")):
        return functional.interpolate(x, size, mode="bilinear", align_corners=corners)
    whole = size[0] % x.shape[2] == 0 and size[1] % x.shape[3] == 0
    if mode == b"nearest" and (whole or (coordinate_transformation_mode, nearest_mode) == (b"asymmetric", b"floor")):
        return functional.interpolate(x, size, mode="nearest")
    raise ModelError(
        f"the ONNX operator Resize with mode {mode.decode()}, {coordinate_transformation_mode.decode()}, "
        f"{nearest_mode.decode()} is not supported"
    )


def _pad(
    x: Tensor, pads: Any = None, value: Any = None, axes: Any = None, *, mode: bytes = b"constant", **old: Any
) -> Tensor:
    amounts = [int(n) for n in (old["pads"] if pads is None else pads)]
    rank = len(amounts) // 2
    pairs = [pair for i in reversed(range(rank)) for pair in (amounts[i], amounts[i + rank])]
    fill = old.get("value", 0.0) if value is None else float(value)
    if mode == b"constant":
        return functional.pad(x, pairs, value=fill)
    return functional.pad(x, pairs[:4], mode={b"reflect": "reflect", b"edge": "replicate"}[mode])


def _axes(given: np.ndarray | None, attribute: list[int] | None) -> list[int]:
    return [int(n) for n in (attribute if given is None else given) or []] if given is None else given.tolist()


def _reduce(call: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def reduce(x: Tensor, given: np.ndarray | None = None, *, axes: Any = None, keepdims: int = 1, **_: Any) -> Tensor:
        return call(x, _axes(given, axes) or list(range(x.dim())), keepdim=bool(keepdims))

    return reduce


def _unsqueeze(x: Tensor, given: np.ndarray | None = None, *, axes: list[int] | None = None) -> Tensor:
    for axis in sorted(_axes(given, axes)):
        x = x.unsqueeze(axis)
    return x


def _squeeze(x: Tensor, given: np.ndarray | None = None, *, axes: list[int] | None = None) -> Tensor:
    for axis in sorted(_axes(given, axes), reverse=True):
        x = x.squeeze(axis)
    return x


OPERATORS: dict[str, Callable[..., Any]] = {
    "Add": lambda a, b: a + b,
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Clip": _clip,
    "Concat": lambda *parts, axis: torch.cat(parts, axis),
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Div": lambda a, b: a / b,
    "Dropout": lambda x, *_, **__: x,
    "Elu": lambda x, alpha=1.0: functional.elu(x, alpha),
    "Exp": torch.exp,
    "Flatten": lambda x, axis=1: x.flatten(axis),
    "Gather": _gather,
    "Gemm": _gemm,
    "GlobalAveragePool": lambda x: functional.adaptive_avg_pool2d(x, 1),
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5: torch.clamp(x * alpha + beta, 0.0, 1.0),
    "HardSwish": functional.hardswish,
    "Identity": lambda x: x,
    "LeakyRelu": lambda x, alpha=0.01: functional.leaky_relu(x, alpha),
    "MatMul": torch.matmul,
    "MaxPool": _max_pool,
    "Mul": lambda a, b: a * b,
    "Neg": torch.neg,
    "PRelu": lambda x, slope: functional.prelu(x, slope.flatten()),
    "Pad": _pad,
    "Pow": lambda a, b: torch.pow(a, float(b)),
    "ReduceMean": _reduce(torch.mean),
    "ReduceSum": _reduce(torch.sum),
    "Relu": torch.relu,
    "Reshape": _reshape,
    "Resize": _resize,
    "Sigmoid": torch.sigmoid,
    "Slice": _slice,
    "Softmax": lambda x, axis=-1: torch.softmax(x, axis),
    "Softplus": functional.softplus,
    "Split": _split,
    "Sqrt": torch.sqrt,
    "Squeeze": _squeeze,
    "Sub": lambda a, b: a - b,
    "Tanh": torch.tanh,
    "Transpose": lambda x, perm: x.permute(*perm),
    "Unsqueeze": _unsqueeze,
    "Upsample": lambda x, scales, mode=b"nearest": _resize(
        x, None, scales, mode=mode, coordinate_transformation_mode=b"asymmetric", nearest_mode=b"floor"
    ),
}
