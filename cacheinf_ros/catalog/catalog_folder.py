# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A catalog on disk: catalog.yaml, and beside it for each variant a safetensors file, and scales where it runs in int8.

Of these only ``model`` in catalog.yaml may lead to code that is run: a factory, or a trusted ``.pt2`` file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, FiniteFloat, model_validator
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from cacheinf_ros.catalog.build.techniques import Change, Recipe, perform, unpack
from cacheinf_ros.catalog.stored_files import read_yaml, write_yaml
from cacheinf_ros.catalog.variant import Catalog, Cost, Place, Variant
from cacheinf_ros.catalog.variant_files import REMEDY, intact_scales, intact_weights
from cacheinf_ros.config import Config
from cacheinf_ros.disk_cache import OptionalSha256
from cacheinf_ros.engine.quantisation import checked_scales
from cacheinf_ros.errors import CacheinfError, CatalogError, EngineError
from cacheinf_ros.graph import (
    DeferredGraph,
    Graph,
    Model,
    ModelCard,
    Scales,
    WeightsOrigin,
    graph_hash,
    load_card,
    load_module,
    model_of,
    possible_cards,
    recognised,
)
from cacheinf_ros.graph.graph_cache import keep, kept_file, kept_graph

FILE = "catalog.yaml"
_Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,95}$")]  # safe as a file name
_Amount = Annotated[FiniteFloat, Field(ge=0)]
_Side = Annotated[int, Field(ge=1, le=8192)]


class CostEntry(Config):
    """A :class:`Cost` as catalog.yaml states it."""

    energy_j: _Amount
    money: _Amount
    latency_ms: _Amount
    memory_bytes: int = Field(ge=0)
    load_energy_j: _Amount
    load_money: _Amount
    load_ms: _Amount = 0.0  # catalogs built before it was measured lack it


class VariantEntry(Config):
    """A variant as catalog.yaml states it.

    Attributes:
        bits: size of a stored weight.
        stored_bytes: size of the weights in the variant's file.
        graph: :func:`graph_hash` of the variant's graph with its weights.
        sha256: SHA-256 of the weights' file; "" for a dominated variant, which has no file.
        int8: whether the variant is computed in int8.
        scales_sha256: SHA-256 of the file with the scales of an int8 variant; "" where there is none.
    """

    name: _Name
    accuracy: FiniteFloat = Field(ge=0, le=1)
    bits: Literal[32, 16, 8]
    changes: tuple[Change, ...] = ()
    stored_bytes: int = Field(ge=0)
    graph: str = Field(pattern=r"^[0-9a-f]{32}$")
    sha256: OptionalSha256 = ""
    int8: bool = False
    scales_sha256: OptionalSha256 = ""
    costs: dict[Place, CostEntry] = Field(min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.int8 and (self.bits != 8 or set(self.costs) != {Place.DEVICE}):
            raise ValueError("what is computed in int8 has weights of 8 bits, and runs on the device alone")
        return self

    @property
    def recipe(self) -> Recipe:
        """How the variant is made from the original."""
        return Recipe(changes=self.changes, bits=self.bits, int8=self.int8)

    @property
    def variant(self) -> Variant:
        """The variant's name, accuracy, technique and costs, without its weights."""
        costs = {place: Cost(**cost.model_dump()) for place, cost in self.costs.items()}
        return Variant(name=self.name, accuracy=self.accuracy, technique=self.recipe.technique, costs=costs)


class CatalogFile(Config):
    """The content of catalog.yaml.

    Attributes:
        format: version of the file format.
        name: the request's name for the model.
        model: reference to the original model, as :func:`load_module` takes it.
        measure: what accuracy means.
        data: the data that the catalog was built with.
        conditions: settings and machine of the measurement, for the reader.
        variants: the Pareto front and the original, the most accurate first.
        dominated: variants that another one beats or equals in everything; they have no weights.
        left_out: the variants that were not made, and why.
    """

    format: Literal[1]
    name: str = Field(min_length=1, pattern="^[^/]*$")  # models that are computed together have outputs NAME/OUTPUT
    model: str = Field(min_length=1)
    input_size: tuple[_Side, _Side]
    measure: str
    data: str
    conditions: dict[str, str | float | int] = Field(default_factory=dict)
    variants: tuple[VariantEntry, ...] = Field(min_length=1)
    dominated: tuple[VariantEntry, ...] = ()
    left_out: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [entry.name for entry in (*self.variants, *self.dominated)]
        if len(set(names)) != len(names):
            raise ValueError(f"two variants have one name: {', '.join(names)}")
        if any(entry.int8 and not entry.scales_sha256 for entry in self.variants):
            raise ValueError("a variant in int8 has no SHA-256 of its scales")
        if not any(entry.recipe == Recipe() for entry in self.variants):
            raise ValueError("the original is not among the variants")
        return self


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CatalogFolder:
    """A catalog that was read from its folder.

    Attributes:
        path: the folder.
        file: all that catalog.yaml says.
    """

    path: Path
    file: CatalogFile

    @property
    def catalog(self) -> Catalog:
        """The variants that have weights."""
        return Catalog(model=self.file.name, variants=tuple(entry.variant for entry in self.file.variants))

    @property
    def without_int8(self) -> CatalogFolder:
        """The catalog without the variants that are computed in int8."""
        variants = tuple(entry for entry in self.file.variants if not entry.int8)
        return replace(self, file=self.file.model_copy(update={"variants": variants}))

    @property
    def cards(self) -> tuple[ModelCard, ...]:
        """The cards that the variants may have, read without loading the model.

        A variant's network decides which one it is.

        Raises:
            ModelError: the original's card cannot be read.
        """
        return possible_cards(sized(load_card(self.file.model), self.file))

    def load(self, name: str) -> Model:
        """Load a variant, ready for the engine; its outputs equal the built variant's bit for bit.

        Raises:
            CatalogError: there is no such variant, or its file is missing, changed, or not its weights.
            ModelError: the original's architecture cannot be loaded.
        """
        entry = self.entry(name)
        module, card = load_module(self.file.model)
        return load_variant(entry, self.path, module, sized(card, self.file))

    def network(self, name: str) -> Model:
        """Load a variant as :meth:`load` does, but from the graph that this machine kept the first time.

        Once the graph is kept, only scales are read from the folder. The model's module returns a dict of outputs, as
        graphs do.
        """
        entry = self.entry(name)
        path = self._kept(entry)
        graph = kept_graph(path)
        if graph is None:
            model = self.load(name)
            kept = kept_graph(path) if keep(model.graph, path) else None
            graph = kept or model.graph  # a kept graph's weights stay in its file and take no memory
            return replace(model, graph=graph, module=DeferredGraph(graph))
        card = recognised(_named(sized(load_card(self.file.model), self.file), entry), graph)
        if graph.tensors[graph.input].size != card.input_size:
            raise CatalogError(f"{path} is for pictures of another size than catalog {self.path} says; {REMEDY}")
        return Model(
            module=DeferredGraph(graph), graph=graph, card=card, weights_origin=WeightsOrigin.FILE,
            scales=_scales_of(entry, self.path, graph),
        )  # fmt: skip

    def prepare(self, say: Callable[[str], None] = lambda _: None) -> None:
        """Keep the graphs of all variants on disk, so that even the first load of each is fast.

        Args:
            say: called with a message where there is something to do.

        Raises:
            CatalogError: as for :meth:`load`.
            ModelError: as for :meth:`load`.
        """
        paths = {self._kept(entry): entry for entry in self.file.variants}  # int8 and 8-bit variants share a graph
        missing = [entry for path, entry in paths.items() if not path.is_file()]
        if missing:
            say(f"preparing {len(missing)} variants of {self.file.name}, once on this machine")
        for entry in missing:
            if not keep(self.load(entry.name).graph, self._kept(entry)):
                return

    def entry(self, name: str) -> VariantEntry:
        """Return a variant's entry; raises :class:`CatalogError` where no variant has this name."""
        entry = next((entry for entry in self.file.variants if entry.name == name), None)
        if entry is None:
            known = ", ".join(entry.name for entry in self.file.variants)
            raise CatalogError(f"catalog {self.path} has no variant {name!r}; it has {known}")
        return entry

    def _kept(self, entry: VariantEntry) -> Path:
        network = entry.model_dump_json(include={"changes", "bits", "graph", "sha256"})
        return kept_file(f"{self.file.model}/{self.file.input_size}/{network}")


def prepare_catalogs(
    folders: Iterable[CatalogFolder], say: Callable[[str], None], complain: Callable[[str], None]
) -> None:
    """Prepare catalogs, so that their variants load fast; a catalog that cannot be prepared is only reported.

    Loading the faulty variant later raises the error again.
    """
    for folder in folders:
        try:
            folder.prepare(say)
        except CacheinfError as error:
            complain(f"catalog of {folder.file.name}: {error}")


def read_catalog(folder: Path, *, compares: bool = True) -> CatalogFolder:
    """Read a catalog, and check that the files of its variants are those that were written.

    Args:
        compares: whether to check the files, which takes time in proportion to their size.

    Raises:
        CatalogError: a file is missing, unreadable, changed, or says something impossible.
    """
    file = read_yaml(folder / FILE, CatalogFile, REMEDY)
    for entry in file.variants if compares else ():
        intact_weights(folder, entry.name, entry.sha256)
        if entry.int8:
            intact_scales(folder, entry.name, entry.scales_sha256)
    return CatalogFolder(path=folder, file=file)


def write_catalog(folder: Path, file: CatalogFile) -> None:
    """Write catalog.yaml beside the weights that it names.

    Raises:
        CatalogError: the file cannot be written.
    """
    try:
        write_yaml(folder / FILE, file)
    except OSError as error:
        raise CatalogError(f"catalog {folder} cannot be written: {error}; name another folder") from None


def load_variant(entry: VariantEntry, folder: Path, original: nn.Module, card: ModelCard) -> Model:
    """Change the original's architecture as the entry says, and load the variant's weights.

    Args:
        original: the original model, with any weights.
        card: the original's card, with the catalog's input size.

    Raises:
        CatalogError: the file is missing, changed, or does not fit.
    """
    path = intact_weights(folder, entry.name, entry.sha256)
    assert card.input_size is not None
    module = perform(original, entry.recipe.changes, card.input_size)
    try:
        module.load_state_dict(unpack(load_file(path)))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise CatalogError(f"weights {path} do not fit variant {entry.name!r}: {error}; {REMEDY}") from None
    model = model_of(module, _named(card, entry), weights_origin=WeightsOrigin.FILE)
    if graph_hash(model.graph) != entry.graph:
        raise CatalogError(f"variant {entry.name!r} of {folder} is not the network that was measured; {REMEDY}")
    return replace(model, scales=_scales_of(entry, folder, model.graph))


def sized(card: ModelCard, file: CatalogFile) -> ModelCard:
    """Return the card with the input size that the catalog was measured with."""
    return card.model_copy(update={"input_size": file.input_size, "weights": None})


def _named(card: ModelCard, entry: VariantEntry) -> ModelCard:
    return card.model_copy(update={"name": f"{card.name}-{entry.name}"})


def cost_entries(costs: Mapping[Place, Cost]) -> dict[Place, CostEntry]:
    """Convert costs to the entries that catalog.yaml stores."""
    return {place: CostEntry(**asdict(cost)) for place, cost in costs.items()}


def _scales_of(entry: VariantEntry, folder: Path, graph: Graph) -> Scales | None:
    if not entry.int8:
        return None
    path = intact_scales(folder, entry.name, entry.scales_sha256)
    try:
        return checked_scales(path.read_bytes(), graph)
    except (OSError, EngineError) as error:
        raise CatalogError(f"scales {path} do not fit variant {entry.name!r}: {error}; {REMEDY}") from None
