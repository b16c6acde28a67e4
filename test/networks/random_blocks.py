# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The blocks of random networks: each function draws one for a feature map of (channels, height, width)."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

Shape = tuple[int, int, int]


class Call(nn.Module):
    """A module that computes a function of feature maps and of modules.

    Attributes:
        reads: the number of feature maps that it takes.
    """

    def __init__(self, function: Callable[..., Tensor], *parts: nn.Module, reads: int = 1) -> None:
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(parts)
        self.reads = reads

    def forward(self, *values: Tensor) -> Tensor:
        """Compute the function."""
        return self.function(*values, *self.parts)


Block = Callable[..., Call | None]
"""A function (generator, newest map's shape, perhaps another of the same size) -> block, or None if it does not fit."""


def activation(rng: random.Random, channels: int) -> nn.Module:
    """Draw any activation, or none."""
    return rng.choice(
        [
            nn.Identity(), nn.ReLU(), nn.ReLU6(), nn.Hardtanh(-0.5, 0.8), nn.LeakyReLU(0.1), nn.PReLU(),
            nn.PReLU(channels), nn.Sigmoid(), nn.Tanh(), nn.SiLU(), nn.Hardsigmoid(), nn.Hardswish(), nn.GELU(),
            nn.GELU(approximate="tanh"), nn.ELU(0.7), nn.CELU(0.6), nn.SELU(), nn.Softplus(), nn.Softplus(beta=2),
            nn.Mish(), nn.LogSigmoid(), nn.Softsign(), nn.Threshold(0.1, 0.3), nn.Hardshrink(), nn.Tanhshrink(),
        ]
    )  # fmt: skip


def batch_norm(channels: int) -> nn.BatchNorm2d:
    """Return a batch norm with statistics other than those of the identity."""
    norm = nn.BatchNorm2d(channels)
    norm.running_mean.normal_(std=0.3)
    norm.running_var.uniform_(0.5, 2.0)
    norm.weight.data.uniform_(0.5, 1.5)
    norm.bias.data.normal_(std=0.3)
    return norm


def groups_of(rng: random.Random, inputs: int, outputs: int) -> int:
    """Draw a number that divides both."""
    return rng.choice([n for n in range(1, inputs + 1) if inputs % n == 0 and outputs % n == 0])


def any_conv(rng: random.Random, channels: int, *, plain: bool = False) -> nn.Conv2d:
    """Draw any convolution; a plain one keeps height and width."""
    outputs = rng.choice([channels, rng.randint(1, 16), 2 * channels if channels < 12 else channels])
    kernel = (rng.randint(1, 5), rng.randint(1, 5)) if rng.random() < 0.3 else (size := rng.choice([1, 3, 3, 5]), size)
    padding = "same" if plain else (rng.randint(0, kernel[0]), rng.randint(0, kernel[1]))
    stride = 1 if plain else rng.choice([1, 1, 2, 3, (2, 1)])
    mode = "zeros" if plain else rng.choice(["zeros"] * 4 + ["reflect", "replicate", "circular"])
    return nn.Conv2d(
        channels, outputs, kernel, stride, padding, rng.choice([1, 1, 2]), groups_of(rng, channels, outputs),
        rng.random() < 0.5, mode,
    )  # fmt: skip


def convolution(rng: random.Random, shape: Shape, *_: Shape) -> Call:
    """Draw a convolution, perhaps with batch norm, and an activation."""
    conv = any_conv(rng, shape[0])
    norm = batch_norm(conv.out_channels) if rng.random() < 0.6 else nn.Identity()
    return Call(lambda x, *parts: nn.Sequential(*parts)(x), conv, norm, activation(rng, conv.out_channels))


def depthwise(rng: random.Random, shape: Shape, *_: Shape) -> Call:
    """Draw a depthwise convolution, followed by a pointwise one."""
    kernel = rng.choice([3, 5])
    spatial = nn.Conv2d(shape[0], shape[0], kernel, rng.choice([1, 2]), kernel // 2, groups=shape[0])
    mixed = nn.Conv2d(shape[0], rng.randint(2, 12), 1)
    return Call(
        lambda x, a, norm, act, b: b(act(norm(a(x)))), spatial, batch_norm(shape[0]), activation(rng, shape[0]), mixed
    )


def transposed(rng: random.Random, shape: Shape, *_: Shape) -> Call:
    """Draw a transposed convolution."""
    outputs, stride, dilation = rng.randint(1, 8), rng.choice([1, 2, 2, 3, (1, 2)]), rng.choice([1, 1, 2])
    kernel = rng.randint(1, 4)
    reach = dilation * (kernel - 1)
    extra = rng.randint(0, max((min(stride) if isinstance(stride, tuple) else stride), dilation) - 1)
    conv = nn.ConvTranspose2d(
        shape[0], outputs, kernel, stride, rng.randint(0, reach), extra, groups_of(rng, shape[0], outputs),
        rng.random() < 0.5, dilation,
    )  # fmt: skip
    return Call(lambda x, c, norm, act: act(norm(c(x))), conv, batch_norm(outputs), activation(rng, outputs))


def residual(rng: random.Random, shape: Shape, *_: Shape) -> Call:
    """Draw the sum of a map and its convolution, activated before or after adding."""
    conv = nn.Conv2d(shape[0], shape[0], 3, 1, 1)
    after = rng.random() < 0.5
    return Call(
        lambda x, c, norm, act: act(x + norm(c(x))) if after else act(norm(c(x))) + x,
        conv, batch_norm(shape[0]), activation(rng, shape[0]),
    )  # fmt: skip


def pooling(rng: random.Random, shape: Shape, *_: Shape) -> Call:
    """Draw any pooling."""
    kernel = rng.randint(2, 3)
    stride, padding, ceil = rng.randint(1, 3), rng.randint(0, kernel // 2), rng.random() < 0.5
    return Call(
        lambda x, pool: pool(x),
        rng.choice(
            [
                nn.MaxPool2d(kernel, stride, padding, rng.choice([1, 2]), ceil_mode=ceil),
                nn.AvgPool2d(kernel, stride, padding, ceil, rng.random() < 0.5),
                nn.AvgPool2d(kernel, stride, padding, divisor_override=3),
                nn.AdaptiveAvgPool2d((rng.randint(2, 9), rng.randint(2, 9))),
                nn.AdaptiveAvgPool2d((shape[1] // 2 or 1, None)),
            ]
        ),
    )


def norm(rng: random.Random, shape: Shape, *_: Shape) -> Call:
    """Draw a norm over pixels, channels or both, and an activation."""
    channels = shape[0]
    layer = nn.LayerNorm(channels)
    layer.weight.data.uniform_(0.5, 1.5)
    layer.bias.data.normal_(std=0.3)
    over_channels = Call(lambda x, n: n(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), layer)
    group = nn.GroupNorm(groups_of(rng, channels, channels), channels)
    chosen = rng.choice([batch_norm(channels), over_channels, over_channels, group, nn.InstanceNorm2d(channels)])
    return Call(lambda x, n, act: act(n(x)), chosen, activation(rng, channels))


def squeeze_excite(rng: random.Random, shape: Shape, *_: Shape) -> Call:
    """Draw a squeeze-and-excite block, which weights channels by their means over the image."""
    inner = rng.randint(1, 6)
    gate = rng.choice([torch.sigmoid, functional.hardsigmoid])
    if rng.random() < 0.5:
        return Call(
            lambda x, a, b: x * gate(b(torch.relu(a(x.mean((2, 3), keepdim=True))))),
            nn.Conv2d(shape[0], inner, 1), nn.Conv2d(inner, shape[0], 1),
        )  # fmt: skip
    return Call(
        lambda x, a, b: x * gate(b(torch.relu(a(functional.adaptive_avg_pool2d(x, 1).flatten(1)))))[:, :, None, None],
        nn.Linear(shape[0], inner), nn.Linear(inner, shape[0]),
    )  # fmt: skip


def attention(rng: random.Random, shape: Shape, *_: Shape) -> Call:
    """Draw attention: pixels weighted by their channels' mean and maximum, or rows and columns by their means."""
    if rng.random() < 0.5:
        return Call(
            lambda x, c: x * torch.sigmoid(c(torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1))),
            nn.Conv2d(2, 1, 3, 1, 1),
        )
    return Call(
        lambda x, a, b: x * torch.sigmoid(a(x.mean(3, keepdim=True))) * torch.sigmoid(b(x.mean(2, keepdim=True))),
        nn.Conv2d(shape[0], shape[0], 1), nn.Conv2d(shape[0], shape[0], 1),
    )  # fmt: skip


def branches(rng: random.Random, shape: Shape, *_: Shape) -> Call:
    """Draw parallel branches that are concatenated; one may be the pooled image."""
    convs = [any_conv(rng, shape[0], plain=True) for _ in range(rng.randint(2, 3))]
    pooled, act = rng.random() < 0.4, activation(rng, shape[0])
    size = shape[1:]

    def function(x: Tensor, act: nn.Module, *convs: nn.Module) -> Tensor:
        parts = [conv(x) for conv in convs]
        if pooled:
            parts.append(functional.interpolate(act(x.mean((2, 3), keepdim=True)), size, mode="bilinear"))
        return torch.cat([*parts, x], 1)

    return Call(function, act, *convs)


def shuffle_unit(rng: random.Random, shape: Shape, *_: Shape) -> Call | None:
    """Draw ShuffleNet's unit: half of the channels are convolved, the others pass, then all are shuffled."""
    if shape[0] % 2:
        return None
    half = shape[0] // 2

    def function(x: Tensor, conv: nn.Module, act: nn.Module) -> Tensor:
        a, b = x.chunk(2, 1)
        joined = torch.cat([a, act(conv(b))], 1)
        return joined.view(1, 2, half, *x.shape[2:]).transpose(1, 2).reshape(x.shape)

    return Call(function, nn.Conv2d(half, half, 3, 1, 1), activation(rng, half))


def split(rng: random.Random, shape: Shape, *_: Shape) -> Call | None:
    """Draw a block that takes channels apart and combines them in other ways."""
    channels = shape[0]
    if channels < 4:
        return None
    cut, order = rng.randint(1, channels - 1), rng.sample(range(channels), channels)
    return Call(
        rng.choice(
            [
                lambda x: torch.cat(x.split([cut, channels - cut], 1)[::-1], 1),
                lambda x: torch.cat([x[:, ::2] * 2, x[:, 1 : 1 + cut]], 1),
                lambda x: x[:, order],
                lambda x: x.flip(1) + x,
                lambda x: torch.cat([part * i for i, part in enumerate(x.chunk(3, 1), 1)], 1),
                lambda x: x[:, cut - 1 : cut] * x,
                lambda x: functional.glu(x[:, : channels // 2 * 2], 1),
                lambda x: torch.stack(x[:, : channels // 2 * 2].chunk(2, 1), 2).flatten(1, 2),
            ]
        )
    )


def moved_pixels(rng: random.Random, shape: Shape, *_: Shape) -> Call | None:
    """Draw a block that moves pixels: crops, pads, flips, or exchanges channels and pixels."""
    _, height, width = shape
    if min(height, width) < 6:
        return None
    amounts = [rng.randint(-1, 3) for _ in range(4)]
    positive = [abs(n) for n in amounts]
    even = lambda x: x[:, :, : height // 2 * 2, : width // 2 * 2]  # noqa: E731
    return Call(
        rng.choice(
            [
                lambda x: x[:, :, 1:-2, 2:],
                lambda x: x[:, :, ::2, 1::3],
                lambda x: x.flip(3),
                lambda x: x.roll((1, -2), (2, 3)),
                lambda x: functional.pad(x, amounts, value=0.25),
                lambda x: functional.pad(x, amounts),
                lambda x: functional.pad(x, positive, mode="reflect"),
                lambda x: functional.pad(x, positive, mode="replicate"),
                lambda x: functional.pixel_unshuffle(even(x), 2),
                lambda x: torch.cat([even(x)[:, :, i::2, j::2] for j in (0, 1) for i in (0, 1)], 1),
            ]
        )
    )


def pixel_shuffle(rng: random.Random, shape: Shape, *_: Shape) -> Call:
    """Draw a pixel shuffle, which turns channels into pixels."""
    factor, outputs = rng.choice([2, 2, 3]), rng.randint(1, 4)
    conv = nn.Conv2d(shape[0], outputs * factor**2, 1)
    return Call(lambda x, c, act: act(functional.pixel_shuffle(c(x), factor)), conv, activation(rng, outputs))


def resize(rng: random.Random, shape: Shape, *_: Shape) -> Call:
    """Draw any resizing."""
    mode = rng.choice(["nearest", "nearest-exact", "bilinear", "bicubic", "area"])
    corners = rng.random() < 0.5 if mode in ("bilinear", "bicubic") else None
    if rng.random() < 0.4:
        factor = rng.choice([0.5, 1.5, 2.0])
        return Call(lambda x: functional.interpolate(x, scale_factor=factor, mode=mode, align_corners=corners))
    size = (rng.randint(3, 30), rng.randint(3, 30))
    return Call(lambda x: functional.interpolate(x, size, mode=mode, align_corners=corners))


def softmax(rng: random.Random, shape: Shape, *_: Shape) -> Call:
    """Draw a softmax or norm over the channels, whichever dimension they are in."""
    return Call(
        rng.choice(
            [
                lambda x: x.softmax(1),
                lambda x: x.log_softmax(1),
                lambda x: x.permute(0, 3, 2, 1).softmax(3).permute(0, 3, 2, 1),
                lambda x: functional.normalize(x),
            ]
        )
    )


def convnext(rng: random.Random, shape: Shape, *_: Shape) -> Call:
    """Draw ConvNeXt's block, whose layers have the channels last."""
    channels, inner = shape[0], rng.randint(2, 12)
    scale = nn.ParameterList([torch.rand(channels) + 0.5])

    def function(x: Tensor, conv: nn.Module, norm: nn.Module, a: nn.Module, b: nn.Module, scale: nn.Module) -> Tensor:
        y = norm(conv(x).permute(0, 2, 3, 1))
        return x + (scale[0] * b(functional.gelu(a(y)))).permute(0, 3, 1, 2)

    conv = nn.Conv2d(channels, channels, 5, padding=2, groups=channels)
    return Call(function, conv, nn.LayerNorm(channels), nn.Linear(channels, inner), nn.Linear(inner, channels), scale)


def arithmetic(rng: random.Random, shape: Shape, *_: Shape) -> Call:
    """Draw arithmetic with numbers and with constants for each channel."""
    vector = nn.ParameterList([torch.rand(shape[0], 1, 1) + 0.5])
    return Call(
        rng.choice(
            [
                lambda x, _: 1 - x / 3,
                lambda x, _: (x + 1) * 0.7 - 0.2,
                lambda x, v: x * v[0] + v[0].abs(),
                lambda x, v: v[0] - x,
                lambda x, v: torch.maximum(x, x * v[0]),
                lambda x, _: (x * x + 0.5).sqrt(),
                lambda x, _: 1 / (2 + x.abs()),
                lambda x, _: x**2 - x**3 * 0.1,
                lambda x, _: torch.add(x, x.sigmoid(), alpha=-0.5),
                lambda x, _: x.exp().clamp(max=3),
                lambda x, _: x * x.sigmoid(),
                lambda x, _: x - x.mean((2, 3), keepdim=True),
                lambda x, _: x.amax((2, 3), keepdim=True) - x,
                lambda x, _: x / (x.var(1, keepdim=True) + 1).sqrt(),
            ]
        ),
        vector,
    )


def two_maps(rng: random.Random, shape: Shape, other: Shape | None = None) -> Call | None:
    """Draw a block that concatenates or combines a second map of the same size."""
    if other is None:
        return None
    if other[0] != shape[0] or rng.random() < 0.4:
        return Call(lambda x, y: torch.cat([y, x], 1), reads=2)
    return Call(
        rng.choice(
            [
                lambda x, y: x + y,
                lambda x, y: x - y,
                lambda x, y: x * y,
                lambda x, y: torch.minimum(x, y),
                lambda x, y: x / (y.abs() + 1),
                lambda x, y: torch.sub(x, y, alpha=0.5),
            ]
        ),
        reads=2,
    )


BLOCKS: tuple[Block, ...] = (
    convolution, convolution, convolution, depthwise, transposed, residual, pooling, norm, squeeze_excite, attention,
    branches, shuffle_unit, split, moved_pixels, pixel_shuffle, resize, softmax, convnext, arithmetic, two_maps,
    two_maps,
)  # fmt: skip


def map_head(rng: random.Random, shape: Shape) -> Call:
    """Draw a head that returns a map, perhaps of probabilities."""
    conv = nn.Conv2d(shape[0], rng.randint(1, 6), 1)
    return Call(rng.choice([lambda x, c: c(x), lambda x, c: c(x).softmax(1), lambda x, c: c(x).sigmoid()]), conv)


def pooled_head(rng: random.Random, shape: Shape) -> Call:
    """Draw a head that returns scores for the image, from the mean of its pixels."""
    classes = rng.randint(2, 6)
    linear, again = nn.Linear(shape[0], classes), nn.Linear(classes, classes)
    return Call(
        rng.choice(
            [
                lambda x, a, b: a(x.mean((2, 3))),
                lambda x, a, b: b(torch.relu(a(torch.flatten(functional.adaptive_avg_pool2d(x, 1), 1)))),
                lambda x, a, b: functional.dropout(a(x.mean((2, 3))), training=False).softmax(1),
                lambda x, a, b: functional.adaptive_max_pool2d(x, 1).flatten(1),
            ]
        ),
        linear, again,
    )  # fmt: skip


def flattened_head(rng: random.Random, shape: Shape) -> Call | None:
    """Draw a head that returns scores for the image, from all its pixels."""
    count = shape[0] * shape[1] * shape[2]
    if count > 4000:
        return None
    linear, again = nn.Linear(count, 7), nn.Linear(7, 3)
    norm = nn.BatchNorm1d(7)
    norm.running_var.uniform_(0.5, 2.0)
    return Call(lambda x, a, n, act, b: b(act(n(a(x.flatten(1))))), linear, norm, activation(rng, 7), again)


def boxes_head(rng: random.Random, shape: Shape) -> Call:
    """Draw a head that returns a list of boxes, as detectors do."""
    values = rng.randint(2, 5)
    conv = nn.Conv2d(shape[0], 3 * values, 1)
    return Call(lambda x, c: c(x).permute(0, 2, 3, 1).reshape(1, -1, values), conv)


HEADS: tuple[Block, ...] = (map_head, pooled_head, flattened_head, boxes_head)
