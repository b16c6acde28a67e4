# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Inputs of an ONNX file, beside the image, that a model card says once for all frames: they become constants."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import yaml

from cacheinf_ros.errors import ModelError

if TYPE_CHECKING:
    import onnx

_MOST = 65_536  # numbers that a card may give to one input
_READABLE = 16  # numbers of one input that an error shows
_EXAMPLE = "give each input's name and its numbers, such as {scale_factor: [[1, 1]]}"


class FixedInput(NamedTuple):
    """What one input is given with every frame.

    Attributes:
        values: finite numbers in nested tuples of the input's shape; a number alone for a scalar.
    """

    name: str
    values: Any


def parse_fixed_inputs(given: Any) -> tuple[FixedInput, ...]:
    """Read the values of inputs from a mapping of their names, or from what this function has returned.

    Raises:
        ValueError: they are not that, too many, or no finite numbers.
    """
    if isinstance(given, Mapping):
        given = list(given.items())
    if not isinstance(given, (list, tuple)) or not all(isinstance(each, (list, tuple)) for each in given):
        raise ValueError(_EXAMPLE)
    found = tuple(_parse(each) for each in given)
    if len({each.name for each in found}) < len(found):
        raise ValueError("an input is named twice")
    return found


def fix_inputs(model: onnx.ModelProto, path: Path, fixed: Iterable[FixedInput]) -> None:
    """Turn inputs of a model that has been read into constants.

    Args:
        path: where the model comes from, for errors.

    Raises:
        ModelError: the model has no such input, or it takes other shapes or numbers.
    """
    from onnx import numpy_helper

    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    for each in fixed:
        place = next((value for value in graph.input if value.name == each.name and each.name not in constants), None)
        if place is None:
            named = ", ".join(value.name for value in graph.input if value.name not in constants)
            raise ModelError(f"{path} has no input {each.name!r}, of which its card gives values; it has: {named}")
        if _numbers(place) is None:
            raise ModelError(f"{path}: its input {each.name!r} takes no numbers, so that no card can give it any")
        graph.initializer.append(numpy_helper.from_array(_array(each, place, path), each.name))
        graph.input.remove(place)


def example_of(others: Sequence[onnx.ValueInfoProto]) -> str:
    """Return the line of a card that would give these inputs values, all of them 1, for errors.

    Empty where no card can give them values, or where the line would be too long to be read.
    """
    sides = {value.name: [side.dim_value or 1 for side in value.type.tensor_type.shape.dim] for value in others}
    if any(_numbers(value) is None for value in others) or any(math.prod(each) > _READABLE for each in sides.values()):
        return ""
    ones = {name: np.ones(shape, np.int64).tolist() for name, shape in sides.items()}
    line: str = yaml.safe_dump({"fixed_inputs": ones}, default_flow_style=True, width=math.inf, sort_keys=False)
    return line.strip().removeprefix("{").removesuffix("}")


def _parse(pair: Sequence[Any]) -> FixedInput:
    if len(pair) != 2 or not isinstance(pair[0], str):
        raise ValueError(_EXAMPLE)
    name, values = pair
    try:
        array = np.array(values, np.float64)
    except (ValueError, TypeError, OverflowError, RecursionError):  # ragged, no numbers, or far too large
        raise ValueError(f"{name} has no array of numbers: {_EXAMPLE}") from None
    if not 1 <= array.size <= _MOST or not np.isfinite(array).all():
        raise ValueError(f"{name} must have 1 to {_MOST} finite numbers")
    return FixedInput(name, _nested(array.tolist()))


def _nested(values: Any) -> Any:
    return tuple(map(_nested, values)) if isinstance(values, list) else values


def _array(fixed: FixedInput, place: onnx.ValueInfoProto, path: Path) -> np.ndarray:
    """Return the values as the input takes them."""
    from onnx import TensorProto

    given = np.array(fixed.values, np.float64)
    sides = [side.dim_value for side in place.type.tensor_type.shape.dim]
    if len(sides) != given.ndim or any(side not in (0, has) for side, has in zip(sides, given.shape, strict=True)):
        wants = [side or "?" for side in sides]
        raise ModelError(
            f"{path}: its input {fixed.name!r} takes the shape {wants}, but its card gives it {list(given.shape)}"
        )
    dtype = _numbers(place)
    assert dtype is not None
    with np.errstate(all="ignore"):
        found = given.astype(dtype)
    is_whole = dtype.kind in "iub"
    if (is_whole and (found.astype(np.float64) != given).any()) or not np.isfinite(found.astype(np.float64)).all():
        kind = TensorProto.DataType.Name(place.type.tensor_type.elem_type).lower()
        raise ModelError(f"{path}: its input {fixed.name!r} takes {kind}, and not all numbers that its card gives are")
    return found


def _numbers(place: onnx.ValueInfoProto) -> np.dtype[Any] | None:
    """Return the type of the numbers that an input takes; None where it is no tensor of numbers."""
    from onnx import helper

    kind = place.type.tensor_type.elem_type
    if not place.type.HasField("tensor_type") or kind not in helper.get_all_tensor_dtypes():
        return None
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind))
    return None if dtype.hasobject else dtype
