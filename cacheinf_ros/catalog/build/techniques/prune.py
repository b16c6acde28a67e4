# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Fewer kernels and smaller dense layers (MCDNN section 5.1).

The outputs with the smallest weights are removed, and with them the inputs of all layers that read them (Li et al.,
"Pruning Filters for Efficient ConvNets", 2017, section 3.1).
"""

from __future__ import annotations

import copy
from collections import defaultdict

import torch
from torch import Tensor, nn

from cacheinf_ros.catalog.build.techniques.change import Inapplicable
from cacheinf_ros.catalog.build.techniques.coupling import Coupling, couple, kept_inputs

Kind = type[nn.Conv2d] | type[nn.Linear]


def prune(module: nn.Module, kind: Kind, share: float, size: tuple[int, int]) -> nn.Module:
    """Return a copy in which layers of a kind keep only a share of their outputs, at least one each.

    Groups of layers whose outputs are added are pruned together; the network's own outputs stay.

    Args:
        size: (height, width) of the input.

    Raises:
        Inapplicable: there is nothing to prune.
    """
    coupling = couple(module, size)
    kept = _chosen(module, coupling, kind, share)
    if not kept:
        what = "convolutions" if kind is nn.Conv2d else "dense layers"
        raise Inapplicable(f"it has no {what} whose outputs it could do without")
    changed = copy.deepcopy(module)
    for name, channels in coupling.read.items():
        inputs = kept_inputs(channels, coupling, kept)
        group = coupling.made.get(name)
        _reduce(changed.get_submodule(name), inputs, None if group is None else kept.get(coupling.root(group)))
    return changed


def _chosen(module: nn.Module, coupling: Coupling, kind: Kind, share: float) -> dict[int, Tensor]:
    """Return the channels that are left of each group, int64, in their order."""
    makers: dict[int, list[nn.Module]] = defaultdict(list)
    for name, group in coupling.made.items():
        makers[coupling.root(group)].append(module.get_submodule(name))
    kept = {}
    for group, layers in makers.items():
        if coupling.is_fixed(group) or not all(isinstance(layer, kind) for layer in layers):
            continue
        scores = sum(_scores(layer) for layer in layers)
        assert isinstance(scores, Tensor)
        count = max(1, round(share * len(scores)))
        if count < len(scores):
            kept[group] = torch.topk(scores, count).indices.sort().values
    return kept


def _scores(layer: nn.Module) -> Tensor:
    """Return the sum of absolute weights of each output, [outputs], relative to the layer's mean."""
    assert isinstance(layer, (nn.Conv2d, nn.Linear))
    sums = layer.weight.detach().abs().flatten(1).sum(1)
    return sums / sums.mean().clamp(min=torch.finfo(torch.float32).tiny)


def _reduce(layer: nn.Module, inputs: Tensor, outputs: Tensor | None) -> None:
    """Reduce a layer, or a normalisation, to these inputs and outputs; None: all outputs."""
    if isinstance(layer, (nn.BatchNorm2d, nn.BatchNorm1d)):
        layer.num_features = len(inputs)
        for name in ("weight", "bias", "running_mean", "running_var"):
            _select(layer, name, inputs, 0)
        return
    assert isinstance(layer, (nn.Conv2d, nn.Linear))
    if isinstance(layer, nn.Conv2d) and layer.groups > 1:  # depthwise: each input channel is an output channel
        layer.groups = layer.in_channels = layer.out_channels = len(inputs)
        outputs = inputs
    else:
        _select(layer, "weight", inputs, 1)
        if isinstance(layer, nn.Conv2d):
            layer.in_channels = len(inputs)
        else:
            layer.in_features = len(inputs)
    if outputs is not None:
        _select(layer, "weight", outputs, 0)
        _select(layer, "bias", outputs, 0)
        if isinstance(layer, nn.Conv2d):
            layer.out_channels = len(outputs)
        else:
            layer.out_features = len(outputs)


def _select(layer: nn.Module, name: str, index: Tensor, axis: int) -> None:
    value = getattr(layer, name, None)
    if value is None:
        return
    chosen = value.detach().index_select(axis, index).clone()
    setattr(layer, name, nn.Parameter(chosen) if isinstance(value, nn.Parameter) else chosen)
