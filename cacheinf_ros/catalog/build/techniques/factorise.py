# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Factorisation: replaces a layer by the best product of two smaller ones of rank k, by singular values.

MCDNN section 5.1 takes k from n/2 to n/8 for n outputs. A dense layer [m -> n] becomes [m -> k] and [k -> n], a 1 x 1
convolution likewise; a kernel of h x w becomes k kernels of h x 1 and then n of 1 x w (Jaderberg et al., "Speeding up
Convolutional Neural Networks with Low Rank Expansions", 2014, scheme 2). Layers that make the network's outputs stay
whole: n classes or coordinates need rank n.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from cacheinf_ros.catalog.build.techniques.change import Inapplicable
from cacheinf_ros.catalog.build.techniques.probe import output_layers


def factorise(module: nn.Module, rank_share: float, size: tuple[int, int]) -> nn.Module:
    """Return a copy in which each layer is factorised that gets fewer weights so, except output layers.

    Args:
        rank_share: k over the number of the layer's outputs.
        size: (height, width) of the input.

    Raises:
        Inapplicable: no layer can be factorised with fewer weights.
    """
    changed = copy.deepcopy(module)
    last = output_layers(module, torch.zeros(1, 3, *size))
    found = [(name, layer) for name, layer in changed.named_modules() if _can_be(layer) and name not in last]
    done = 0
    for name, layer in found:
        assert isinstance(layer, (nn.Conv2d, nn.Linear))
        rank = max(1, round(rank_share * layer.weight.shape[0]))
        product = _factorised(layer, rank)
        if _weights(product) < layer.weight.numel():
            changed.set_submodule(name, product)
            done += 1
    if not done:
        raise Inapplicable(
            f"none of its {len(found)} inner dense layers and ungrouped convolutions has fewer weights at rank "
            f"{rank_share:g} n"
        )
    return changed


def full_rank(layer: nn.Conv2d | nn.Linear) -> int:
    """Return the rank at which the product equals the layer."""
    if isinstance(layer, nn.Linear):
        return min(layer.weight.shape)
    outputs, inputs, height, width = layer.weight.shape
    return min(inputs * height, outputs * width)


def factorised_linear(layer: nn.Linear, rank: int) -> nn.Sequential:
    """Factorise a dense layer: [m -> k], then [k -> n] with the layer's bias; W = B A."""
    last, first = _product(layer.weight, rank)
    return _chained(
        nn.Linear(layer.in_features, rank, bias=False), first,
        nn.Linear(rank, layer.out_features, bias=layer.bias is not None), last, layer.bias,
    )  # fmt: skip


def factorised_convolution(layer: nn.Conv2d, rank: int) -> nn.Sequential:
    """Factorise a convolution: k kernels of h x 1, then n of 1 x w with the layer's bias.

    W[n, c, y, x] = sum over k of H[n, k, x] V[k, c, y]. The first convolution pads rows, the second columns: without a
    bias the first would only turn columns of zeros into columns of zeros.
    """
    outputs, inputs, height, width = layer.weight.shape
    matrix = layer.weight.permute(0, 3, 1, 2).reshape(outputs * width, inputs * height)
    horizontal, vertical = _product(matrix, rank)
    (rows, columns), (down, right), (dy, dx) = layer.stride, _padding(layer), layer.dilation
    return _chained(
        nn.Conv2d(inputs, rank, (height, 1), (rows, 1), (down, 0), (dy, 1), bias=False),
        vertical.reshape(rank, inputs, height, 1),
        nn.Conv2d(rank, outputs, (1, width), (1, columns), (0, right), (1, dx), bias=layer.bias is not None),
        horizontal.reshape(outputs, width, rank).permute(0, 2, 1)[:, :, None],
        layer.bias,
    )


def _can_be(layer: nn.Module) -> bool:
    """Tell whether a layer can be factorised; subclasses cannot, as their code may read their weights."""
    if type(layer) is nn.Conv2d:
        return layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    return type(layer) is nn.Linear


def _factorised(layer: nn.Conv2d | nn.Linear, rank: int) -> nn.Sequential:
    rank = min(rank, full_rank(layer))
    return factorised_linear(layer, rank) if isinstance(layer, nn.Linear) else factorised_convolution(layer, rank)


def _product(matrix: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Return the best approximation of [n, m] by [n, k] [k, m], each with the roots of the singular values."""
    left, values, right = torch.linalg.svd(matrix.detach().double(), full_matrices=False)
    root = values[:rank].sqrt()
    return (left[:, :rank] * root).float(), (root[:, None] * right[:rank]).float()


def _chained(
    first: nn.Module, first_weight: Tensor, last: nn.Module, weight: Tensor, bias: Tensor | None
) -> nn.Sequential:
    with torch.no_grad():
        first.weight.copy_(first_weight)  # type: ignore[operator]  # modules hand out tensors or modules
        last.weight.copy_(weight)  # type: ignore[operator]
        if bias is not None:
            last.bias.copy_(bias)  # type: ignore[operator]
    return nn.Sequential(first, last)


def _weights(module: nn.Module) -> int:
    """Count the weights, without biases."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.ndim > 1)


def _padding(layer: nn.Conv2d) -> tuple[int, int]:
    assert not isinstance(layer.padding, str)
    return layer.padding[0], layer.padding[1]
