# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Load a model by reference or card: its network, the exported program, and the graph."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.export import ExportedProgram

from cacheinf_ros.config import expanded
from cacheinf_ros.disk_cache import digest
from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph.card import TRUSTED, ModelCard, is_file, read_card
from cacheinf_ros.graph.fuse import fuse
from cacheinf_ros.graph.image_size import agreed_size
from cacheinf_ros.graph.int8_scales import Scales
from cacheinf_ros.graph.ir import Graph
from cacheinf_ros.graph.known_models import recognised
from cacheinf_ros.graph.lower import lower
from cacheinf_ros.graph.model_factory import build_module, load_weights
from cacheinf_ros.graph.shared_values import SharedValues
from cacheinf_ros.graph.weights_origin import WeightsOrigin, origin_of_weights

_log = logging.getLogger(__name__)

_CARDS = Path(__file__).parent / "cards"
_DEFAULT_SIZE = (224, 224)
_FILES = {".onnx", ".pt", ".pt2", ".pth", ".py"}
_EXPORTING = threading.RLock()


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Model:
    """A network ready for the engine.

    Attributes:
        module: the network itself, for dense execution: [1, 3, height, width] float32 -> outputs.
        graph: the same function as operators.
        card: how to prepare images and read outputs; its ``input_size`` is always set.
        weights_origin: where the weights come from.
        scales: scales by which engines on a CPU compute the model in int8, whatever precision they are asked for; None:
            they use the precision that they are asked for.
        shared: values derived from the model, shared by all who run it.
    """

    module: torch.nn.Module
    graph: Graph
    card: ModelCard
    weights_origin: WeightsOrigin = WeightsOrigin.UNKNOWN
    scales: Scales | None = field(default=None, compare=False, repr=False)
    shared: SharedValues = field(default_factory=SharedValues, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The name of the model in results."""
        return self.card.name

    @property
    def input_size(self) -> tuple[int, int]:
        """(height, width) of the input."""
        assert self.card.input_size is not None
        return self.card.input_size


def model_names() -> tuple[str, ...]:
    """Return the names of the models that ship with the package, as :func:`load_model` takes them."""
    return tuple(sorted(path.stem for path in _CARDS.glob("*.yaml")))


def load_model(reference: str, *, weights: Path | None = None, input_size: tuple[int, int] | None = None) -> Model:
    """Load a model; a warning says so where its weights are known to be random.

    Args:
        reference: ``torchvision:NAME``, ``package.module:factory``, ``file.py:factory``, an ``.onnx`` file, a ``.pt2``
            file behind ``trusted:``, a card ``.yaml``, or the name of a model that ships with the package.
        weights: safetensors or a state dict, in place of the card's.
        input_size: (height, width), in place of the card's; files fix it themselves.

    Raises:
        ModelError: there is no such model, or it cannot be loaded, exported or run at this size.
    """
    card, origin = described(reference, weights, input_size)
    path = Path(card.factory)
    if path.suffix.lower() == ".pt2":
        program = _read_program(card)
        return _lowered(program.module(), program, card, origin)
    model = model_of(_module(card, path), card, weights_origin=origin)
    if origin is WeightsOrigin.RANDOM:
        _log.warning(
            "model %r has random weights: its answers mean nothing, only its speed is real. Set weights:=FILE (on the "
            "command line --weights FILE; a state dict or safetensors), or name a model card that has weights",
            model.name,
        )
    return model


def described(
    reference: str, weights: Path | None, input_size: tuple[int, int] | None
) -> tuple[ModelCard, WeightsOrigin]:
    """Return the card for the arguments of :func:`load_model`, and where the model's weights come from.

    Raises:
        ModelError: the card cannot be read.
    """
    card = load_card(reference)
    is_built_in = reference in model_names() and not weights
    weights = Path(expanded(str(weights))) if weights else card.weights
    card = card.model_copy(update={"weights": weights, "input_size": input_size or card.input_size})
    return card, WeightsOrigin.BUILT_IN if is_built_in else origin_of_weights(card)


def load_card(reference: str) -> ModelCard:
    """Return the card of a reference, as it is before the network is known; no network is loaded.

    Raises:
        ModelError: the card cannot be read.
    """
    if reference in model_names():
        return read_card(_CARDS / f"{reference}.yaml")
    is_trusted = reference.startswith(TRUSTED)
    place = expanded(reference.removeprefix(TRUSTED))
    if not is_trusted and place.lower().endswith((".yaml", ".yml")):
        return _with_its_file(read_card(Path(place)), Path(place))
    is_named = place.startswith("torchvision:")
    name = place.removeprefix("torchvision:") if is_named else Path(place).name
    return ModelCard(name=name, factory=f"{TRUSTED}{place}" if is_trusted else place)


def _with_its_file(card: ModelCard, path: Path) -> ModelCard:
    """Return the card that was read at ``path``; raises :class:`ModelError` where the file that it names is missing."""
    file = Path(card.factory.removeprefix(TRUSTED).partition(":")[0])
    if file.suffix.lower() in _FILES and not is_file(file):
        raise ModelError(
            f"model card {path}: its factory {card.factory!r} does not exist; it is relative to the card's folder "
            f"{path.parent.absolute()}"
        )
    return card


def load_module(reference: str) -> tuple[torch.nn.Module, ModelCard]:
    """Load a network and its card without exporting it: to be changed, or to be given other weights.

    Raises:
        ModelError: there is no such model, or it cannot be loaded.
    """
    card = load_card(reference)
    path = Path(card.factory)
    return (_read_program(card).module() if path.suffix.lower() == ".pt2" else _module(card, path)), card


def model_of(
    module: torch.nn.Module, card: ModelCard, *, weights_origin: WeightsOrigin = WeightsOrigin.UNKNOWN
) -> Model:
    """Make a network that is in memory ready for the engine.

    Args:
        card: its ``weights`` are not loaded: the network has them.
        weights_origin: where the network has them from.

    Raises:
        ModelError: the network cannot be exported or run at this size.
    """
    return _lowered(module, export(module, card), card, weights_origin)


def _lowered(module: torch.nn.Module, program: ExportedProgram, card: ModelCard, origin: WeightsOrigin) -> Model:
    with quiet_torch():
        program = program.run_decompositions({})
    try:
        graph = fuse(lower(program))
    except ModelError as error:
        raise ModelError(f"model {card.name!r}: {error}") from None
    card = recognised(_sized(card, program), graph)
    return Model(module=module, graph=graph, card=card, weights_origin=origin)


def _module(card: ModelCard, path: Path) -> torch.nn.Module:
    suffix = path.suffix.lower()
    if suffix == ".onnx":
        from cacheinf_ros.graph.onnx_model import onnx_module  # here: half a second that other models need not wait

        module: torch.nn.Module = onnx_module(path, card)
    elif suffix in (".pt", ".pth"):
        raise ModelError(
            f"{path} is no model that can be read: such files hold weights, or a network for the program that wrote "
            "it. Export it to ONNX (torch.onnx.export), or give module:factory and a state dict as weights"
        )
    elif ":" not in card.factory and path.is_file():
        raise ModelError(f"{path} is not a model: expected trusted:FILE.pt2, or an .onnx or card .yaml file")
    else:
        module = build_module(card.factory)
    if card.weights:
        load_weights(module, card.weights)
    return module


def export(module: torch.nn.Module, card: ModelCard) -> ExportedProgram:
    """Export the network by torch.export; raises :class:`ModelError` where that cannot be done at this size."""
    own = getattr(module, "input_size", None)
    fixed = card.input_size or _DEFAULT_SIZE
    if isinstance(own, (tuple, list)) and len(own) == 2:
        fixed = (own[0], own[1])
    size = agreed_size(f"model {card.name!r}", fixed, card.input_size)
    try:
        with quiet_torch(), torch.no_grad():
            return torch.export.export(module, (torch.zeros(1, 3, *size),))
    except Exception as error:
        text = str(error).strip().splitlines()
        raise ModelError(
            f"model {card.name!r} cannot be exported for images of {tuple(size)}: {type(error).__name__}: "
            f"{text[0] if text else ''}"
        ) from error


@contextmanager
def quiet_torch() -> Iterator[None]:
    """Silence torch during an export, which warns of torch's own internals and logs whole graphs when it fails.

    Our error says what matters. One thread at a time: log levels and filters of warnings belong to the process, and
    torch exports one network at a time.
    """
    with _EXPORTING:
        logger = logging.getLogger("torch")
        level = logger.level
        logger.setLevel(logging.CRITICAL)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            logger.setLevel(level)


def _read_program(card: ModelCard) -> ExportedProgram:
    path = Path(card.factory.removeprefix(TRUSTED))
    if not path.is_file():
        raise ModelError(f"model file {path} does not exist")
    if not card.factory.startswith(TRUSTED):
        raise ModelError(
            f"{path} is not read: reading a .pt2 file may run code that is in it. If you trust whoever made it, say "
            f"{TRUSTED}{path}; of others take .onnx, or a state dict"
        )
    if card.weights:
        raise ModelError(f"model {path} holds its weights already: leave out 'weights'")
    try:
        has_changed = bool(card.sha256) and digest(path) != card.sha256
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error}") from None
    if has_changed:
        raise ModelError(f"{path} has changed since its card was written: write both anew")
    try:
        with quiet_torch():
            return torch.export.load(path)
    except Exception as error:  # torch raises whatever its readers stumble over
        raise ModelError(f"{path} is not a torch.export file: {type(error).__name__}: {error}") from None


def _sized(card: ModelCard, program: ExportedProgram) -> ModelCard:
    names = set(program.graph_signature.user_inputs)
    node = next(node for node in program.graph.nodes if node.op == "placeholder" and node.name in names)
    height, width = (int(n) for n in node.meta["val"].shape[2:])
    size = agreed_size(f"model {card.name!r}", (height, width), card.input_size, card.pictures)
    return card.model_copy(update={"input_size": size})
