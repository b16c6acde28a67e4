# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Write graphs as bytes and read them: a safetensors file, with the structure as JSON in its header.

Nothing in such a file is executed: classes and ATen operators are looked up by name among those that graphs use. Other
ATen operators are refused: some read files, or take a tensor's bytes for a structure in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import torch
from safetensors.torch import save

from cacheinf_ros.errors import ModelError, quoted
from cacheinf_ros.graph import ir
from cacheinf_ros.graph.activation import Activation, ActivationKind
from cacheinf_ros.graph.aten_operators import CONVERSIONS, GLOBALS, IDENTITIES, MOVES, OTHERS, SHAPES, is_core
from cacheinf_ros.graph.check import check_graph
from cacheinf_ros.graph.fusing.global_rewrites import Sequence
from cacheinf_ros.graph.ir import Graph, Operator
from cacheinf_ros.graph.lowering.planar import Planar
from cacheinf_ros.graph.lowering.rules import RULES
from cacheinf_ros.graph.lowering.view import Move, Replay
from cacheinf_ros.graph.taps import AxisTaps
from cacheinf_ros.graph.window import Window

_FORMAT = 1
_KEY = "graph"
_PLAIN = (str, int, float, bool, type(None))
_DTYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16, "I32": torch.int32,
    "I64": torch.int64, "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64,
}  # fmt: skip
_CALLED = frozenset({*IDENTITIES, *CONVERSIONS, *SHAPES, *MOVES, *GLOBALS, *OTHERS, *RULES})
_OF_TORCH = (torch.dtype, torch.memory_format, torch.layout)


def _operators(kind: type[Operator]) -> Iterable[type[Operator]]:
    yield kind
    for more in kind.__subclasses__():
        yield from _operators(more)


_CLASSES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *_operators(Operator), Graph, ir.TensorSpec, ir.TensorRef, ir.Combine, Window, Activation, ActivationKind,
        AxisTaps, Sequence, Replay, Move, Planar,
    )
}  # fmt: skip


def encode_graph(graph: Graph) -> bytes:
    """Encode the graph as a safetensors file.

    Raises:
        ModelError: the graph has calls that cannot be looked up by name: not ATen's, or rare ones of ATen.
    """
    tensors: dict[int, torch.Tensor] = {}
    structure = {"format": _FORMAT, "graph": _written(graph, tensors)}
    named = {str(i): tensor.detach().cpu().contiguous().clone() for i, tensor in enumerate(tensors.values())}
    content: bytes = save(named, {_KEY: json.dumps(structure, separators=(",", ":"))})
    return content


def decode_graph(content: memoryview) -> Graph:
    """Decode a graph; its tensors lie in the memory of ``content``, which must not change any more.

    Raises:
        ModelError: the content is damaged, contradicts itself, or was written by another version of this package.
    """
    try:
        described, data = _header(content)
        structure = json.loads(described.get("__metadata__", {}).get(_KEY, "null"))
        if not isinstance(structure, dict) or structure.get("format") != _FORMAT:
            raise ModelError("it holds no graph of this version")
        tensors = [_tensor(described[str(i)], data) for i in range(len(described) - 1)]
        graph = _read(structure["graph"], tensors)
        if not isinstance(graph, Graph):
            raise ModelError("it holds no graph")
        check_graph(graph)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError, RecursionError) as error:
        raise ModelError(f"it holds no graph: {type(error).__name__}: {error}") from None
    return graph


def _header(content: memoryview) -> tuple[dict[str, Any], memoryview]:
    """Split a safetensors file into the descriptions of its tensors, by name, and the bytes of all of them."""
    start = 8 + int.from_bytes(content[:8], "little")
    described = json.loads(bytes(content[8:start]))
    if not isinstance(described, dict):
        raise TypeError("its header is no object")
    return described, content[start:]


def _tensor(described: dict[str, Any], data: memoryview) -> torch.Tensor:
    first, last = described["data_offsets"]
    dtype, shape = _DTYPES[described["dtype"]], described["shape"]
    if first == last:
        return torch.empty(0, dtype=dtype).reshape(shape)
    return torch.frombuffer(data[first:last], dtype=dtype).reshape(shape)


def _written(value: Any, tensors: dict[int, torch.Tensor]) -> Any:
    """Convert a value to JSON; a tensor becomes its index among the tensors, the same one each time that it occurs."""
    if isinstance(value, torch.Tensor):
        tensors.setdefault(id(value), value)
        return {"tensor": list(tensors).index(id(value))}
    if isinstance(value, Enum):
        return {"enum": type(value).__name__, "value": value.value}
    if isinstance(value, _PLAIN):
        return value
    if is_dataclass(value) and _CLASSES.get(type(value).__name__) is type(value):
        return {
            "class": type(value).__name__,
            "fields": {field.name: _written(getattr(value, field.name), tensors) for field in fields(value)},
        }
    if isinstance(value, (tuple, list)):
        kind = "tuple" if isinstance(value, tuple) else "list"  # torch.Size is a tuple too
        return {kind: [_written(item, tensors) for item in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _written(item, tensors) for key, item in value.items()}}
    if isinstance(value, torch._ops.OpOverload) and _may_be_called(value):
        return {"aten": str(value).removeprefix("aten.")}
    if isinstance(value, _OF_TORCH):
        return {"torch": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    raise ModelError(f"a graph with {value!r} cannot be stored")


def _read(value: Any, tensors: list[torch.Tensor]) -> Any:
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return tensors[value["tensor"]]
    if "enum" in value:
        return _CLASSES[value["enum"]](value["value"])
    if "class" in value:
        return _CLASSES[value["class"]](**{name: _read(item, tensors) for name, item in value["fields"].items()})
    if "tuple" in value:
        return tuple(_read(item, tensors) for item in value["tuple"])
    if "list" in value:
        return [_read(item, tensors) for item in value["list"]]
    if "dict" in value:
        return {key: _read(item, tensors) for key, item in value["dict"].items()}
    if "aten" in value:
        return _aten(value["aten"])
    if "device" in value:
        return torch.device(value["device"])
    found = getattr(torch, value["torch"])
    if not isinstance(found, _OF_TORCH):
        raise TypeError(f"torch.{value['torch']} is no type or format")
    return found


def _aten(name: str) -> Any:
    packet, _, overload = name.partition(".")
    found = getattr(getattr(torch.ops.aten, packet), overload)
    if not isinstance(found, torch._ops.OpOverload) or not _may_be_called(found):
        raise TypeError(f"aten has no operator {quoted(name)} that graphs call")
    return found


def _may_be_called(operator: torch._ops.OpOverload) -> bool:
    return operator in _CALLED or (operator.namespace == "aten" and is_core(operator))
