# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Finds the output that a decoder reads, or says why there is none."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

Outputs = dict[str, NDArray[Any]]
_NAMED = 16  # of a network's outputs, in errors


def output_named(outputs: Outputs, name: str) -> NDArray[Any]:
    """Return the output of this name; raises :class:`ValueError`, with the names that there are, if it is missing."""
    if name not in outputs:
        raise ValueError(f"there is no output named {name!r}; there are: {listed(outputs)}")
    return outputs[name]


def listed(outputs: Outputs) -> str:
    """Return the names and shapes of outputs as errors list them."""
    named = [f"{name} {list(value.shape)}" for name, value in outputs.items()]
    return ", ".join([*named[:_NAMED], *(["..."] if len(named) > _NAMED else [])]) or "none"
