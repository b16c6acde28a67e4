# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A model as a few arrays, of which all processes of a machine can use the same copy.

One array is the graph with its weights, the other these weights packed in the order in which the compiled kernels read
them. A model made of such arrays views them: they are neither copied nor written to.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.errors import LinkError, ModelError
from cacheinf_ros.graph import (
    DeferredGraph,
    Graph,
    Model,
    ModelCard,
    Shared,
    SharedValues,
    WeightsOrigin,
    decode_graph,
    encode_graph,
    ir,
)

_ALIGNMENT = 64  # bytes, as kernels read whole cache lines
_BEHIND = 64  # bytes that kernels may read past the last value
_PACKED_TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
T = TypeVar("T")
_log = logging.getLogger(__name__)

PackedKey = tuple[int, Hashable]
"""The key of packed weights: the index of a convolution among the graph's convolutions, and the weights' kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedPlace:
    """The position of packed weights in their array: byte offset, dtype (torch's name), and shape."""

    offset: int
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelContent:
    """A model as arrays, for processes that share it.

    Attributes:
        graph: uint8 [bytes], see :func:`~cacheinf_ros.graph.encode_graph`.
        packed: uint8 [bytes], the packed weights.
        places: where each convolution's packed weights are in ``packed``.
        card, weights_origin: the model's card, and the origin of its weights.
    """

    graph: NDArray[np.uint8]
    packed: NDArray[np.uint8]
    places: Mapping[PackedKey, PackedPlace]
    card: ModelCard
    weights_origin: WeightsOrigin

    @property
    def size(self) -> int:
        """The bytes of the arrays."""
        return self.graph.nbytes + self.packed.nbytes


class ModelStore(Protocol):
    """A store of models for the processes of one machine; raises :class:`LinkError` where it does not answer."""

    def find(self, key: str) -> ModelContent | None:
        """Return a stored model, whose arrays are views of shared memory; None: nobody has stored it."""
        ...

    def hold(self, key: str, content: ModelContent) -> None:
        """Store a model."""
        ...


class ViewedWeights(SharedValues):
    """Packed weights that are views of an array; those that the array lacks are packed as usual."""

    def __init__(self, viewed: Mapping[tuple[int, Hashable], torch.Tensor]) -> None:
        """Prepare; ``viewed`` maps the identity of the unpacked weights, and the kind, to packed weights."""
        super().__init__()
        self._viewed = viewed

    def get(self, source: object, kind: Hashable, make: Callable[[], T]) -> Shared[T]:
        """Implement :meth:`SharedValues.get`."""
        viewed = self._viewed.get((id(source), kind))
        return super().get(source, kind, make if viewed is None else lambda: cast(T, viewed))


def content_of(model: Model) -> ModelContent:
    """Convert a model to arrays, with the packed weights that its present users have made.

    Raises:
        ModelError: the model's graph cannot be written.
    """
    places_of_weights = {id(each.weight): i for i, each in reversed(list(enumerate(_convolutions(model.graph))))}
    packed = {
        (places_of_weights[id(shared.source)], kind): shared.value
        for kind, shared in model.shared.held()
        if id(shared.source) in places_of_weights
        and isinstance(shared.value, torch.Tensor)
        and shared.value.device.type == "cpu"
    }
    places: dict[PackedKey, PackedPlace] = {}
    end = 0
    for key, tensor in packed.items():
        dtype = str(tensor.dtype).removeprefix("torch.")
        places[key] = PackedPlace(offset=end, dtype=dtype, shape=tuple(tensor.shape))
        end += -(-(tensor.nbytes + _BEHIND) // _ALIGNMENT) * _ALIGNMENT
    array = aligned_bytes(end)
    for key, tensor in packed.items():
        offset = places[key].offset
        array[offset : offset + tensor.nbytes] = tensor.contiguous().view(-1).view(torch.uint8).numpy()
    graph = np.frombuffer(encode_graph(model.graph), np.uint8)
    return ModelContent(graph=graph, packed=array, places=places, card=model.card, weights_origin=model.weights_origin)


def model_of_content(content: ModelContent) -> Model:
    """Make a model whose weights are views of the content's arrays.

    Raises:
        ModelError: the content was written by another version of this package.
        LinkError: the arrays are not aligned in memory as kernels need them.
    """
    if content.places and content.packed.ctypes.data % _ALIGNMENT:
        raise LinkError(f"packed weights do not begin at a multiple of {_ALIGNMENT} bytes")
    with warnings.catch_warnings():  # torch has no read-only tensors
        warnings.filterwarnings("ignore", message=".*not writable.*")
        graph = decode_graph(content.graph.data)
        packed = {key: _viewed(content.packed, place) for key, place in content.places.items()}
    weights = [each.weight for each in _convolutions(graph)]
    viewed = {(id(weights[place]), kind): tensor for (place, kind), tensor in packed.items()}
    return Model(
        module=DeferredGraph(graph), graph=graph, card=content.card, weights_origin=content.weights_origin,
        shared=ViewedWeights(viewed),
    )  # fmt: skip


def shared_model(store: ModelStore, key: str, make: Callable[[], Model], pack: Callable[[Model], object]) -> Model:
    """Return the model that the processes of this machine share; the first that needs it puts it into the store.

    Where the store cannot hold or return the model, a warning is logged, and the process uses a model of its own.

    Args:
        store: the machine's store.
        key: key that distinguishes models, and ways to pack their weights.
        make: loads the model.
        pack: packs the model's weights; its result is dropped once they are in the store.
    """
    made: Model | None = None
    try:
        content = store.find(key)
        if content is None:
            made = make()
            held = pack(made)
            store.hold(key, content_of(made))
            del held
            content = store.find(key)
        if content is None:
            raise LinkError("the machine's store has not kept the model")
        return model_of_content(content)
    except LinkError as error:
        problem = str(error)
    except ModelError as error:
        if made is None and content is None:
            raise  # there is no such model
        problem = str(error)
    _log.warning("the weights of this process are its own, and take memory once more: %s", problem)
    return made or make()


def aligned_bytes(count: int) -> NDArray[np.uint8]:
    """Return zeros, uint8 [count], aligned in memory as kernels need it."""
    block = np.zeros(count + _ALIGNMENT, np.uint8)
    first = -block.ctypes.data % _ALIGNMENT
    return block[first : first + count]


def _viewed(array: NDArray[np.uint8], place: PackedPlace) -> torch.Tensor:
    dtype = _PACKED_TYPES[place.dtype]
    count = int(np.prod(place.shape))
    return torch.frombuffer(array.data, dtype=dtype, count=count, offset=place.offset).reshape(place.shape)


def _convolutions(graph: Graph) -> list[ir.Conv]:
    return [operator for operator in graph.operators if isinstance(operator, ir.Conv)]
