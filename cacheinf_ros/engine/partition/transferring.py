# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Executes the steps that send a tensor's pixels to the other machine, or receive them from it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.border import Border
from cacheinf_ros.engine.execution.tensors import Tensors
from cacheinf_ros.engine.partition.exchange import Patch
from cacheinf_ros.engine.partition.partition_steps import Receive, Send
from cacheinf_ros.engine.partition.replicas import TensorReplica, TensorReplicas
from cacheinf_ros.errors import LinkError


def prepared_transfer(
    step: Send | Receive, replicas: TensorReplicas | None, tensors: Tensors
) -> Callable[[Border, bool], None]:
    """Return a function that sends or receives a tensor's pixels, if the current partition needs it."""
    assert replicas is not None
    transfer = _sender(step, replicas, tensors) if isinstance(step, Send) else _receiver(step, replicas, tensors)
    return lambda *_: transfer() if step.is_needed else None


def outgoing(replica: TensorReplica, pixels: torch.Tensor) -> Patch:
    """Return the patch of a map to send, whose pixels then count as up to date at the other machine.

    Args:
        replica: says what the other machine lacks.
        pixels: the map, [pixels, channels].
    """
    mask = replica.take_stale_remote()
    listed = torch.from_numpy(np.flatnonzero(mask) + replica.sent[0] * replica.size[1])
    sent = pixels[listed.to(pixels.device)]
    values = sent if sent.dtype is torch.uint8 else sent.float()  # levels cross as they are, floats as float32
    return Patch(rows=replica.sent, mask=mask, values=values.cpu().numpy())


def take_in(replica: TensorReplica, patch: Patch, pixels: torch.Tensor, changed: ActiveSet) -> None:
    """Write a patch that came into a map, after which both machines' copies agree there.

    Args:
        replica: the tensor's replica.
        patch: what came.
        pixels: the map, [pixels, channels].
        changed: set to the patch's pixels in the patch's rows.

    Raises:
        LinkError: the values are not float32, or not uint8 where the map holds levels.
    """
    expected = np.dtype(np.uint8 if pixels.dtype is torch.uint8 else np.float32)
    if patch.values.dtype != expected:
        raise LinkError(f"{replica.tensor} is of {expected}, not of {patch.values.dtype}")
    listed = torch.from_numpy(np.flatnonzero(patch.mask) + patch.rows[0] * replica.size[1])
    pixels[listed.to(pixels.device)] = torch.from_numpy(patch.values).to(pixels)
    replica.agree(patch, changed)


def _sender(step: Send, replicas: TensorReplicas, tensors: Tensors) -> Callable[[], None]:
    replica = step.replica
    buffer = tensors.maps.get(replica.tensor)

    def send() -> None:
        assert replicas.exchange is not None
        if buffer is not None:
            patch = outgoing(replica, buffer.pixels)
        else:
            patch = _outgoing_value(replica, tensors.values[replica.tensor])
        replicas.exchange.send(replica.tensor, patch)

    return send


def _receiver(step: Receive, replicas: TensorReplicas, tensors: Tensors) -> Callable[[], None]:
    replica = step.replica
    buffer = tensors.maps.get(replica.tensor)

    def receive() -> None:
        assert replicas.exchange is not None
        patch = replicas.exchange.receive(replica.tensor, replica.received)
        replicas.received.append((replica, patch))
        if buffer is not None:
            take_in(replica, patch, buffer.pixels, step.changed)
            return
        if patch.mask.any():
            tensors.values[replica.tensor] = _whole_value(replica.tensor, patch, tensors)
        replica.agree(patch, step.changed)

    return receive


def _whole_value(name: str, patch: Patch, tensors: Tensors) -> torch.Tensor:
    """Return the value that came for a tensor that is no feature map.

    Raises:
        LinkError: it has another number of values, or another dtype than this machine knows the tensor to have.
    """
    shape, known, value = tensors.specs[name].shape, tensors.values.get(name), torch.from_numpy(patch.values)
    if value.numel() != math.prod(shape):
        raise LinkError(f"{name} is of {shape}, {value.numel()} values came")
    if known is not None and value.dtype is not known.dtype:
        raise LinkError(f"{name} is of {known.dtype}, not of {value.dtype}")
    return value.reshape(shape)


def _outgoing_value(replica: TensorReplica, value: torch.Tensor) -> Patch:
    """Return a patch with all of a tensor that is no feature map, or with nothing if the other machine has it."""
    lacks = replica.take_stale_remote()
    values = value.detach().cpu().numpy()
    return Patch(rows=replica.sent, mask=lacks, values=values if lacks.any() else values.ravel()[:0], is_map=False)
