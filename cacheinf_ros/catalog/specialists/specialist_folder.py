# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the specialists of a catalog's model are made from, on disk: specialise.yaml and safetensors files beside it.

The files lie in a folder ``specialise`` within the catalog's. Small trunks are parts of the catalog's variants, so that
only the variants and the tensors where trunks end are named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, FiniteFloat, model_validator
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from cacheinf_ros.catalog.build.techniques import Change, Recipe
from cacheinf_ros.catalog.catalog_folder import CatalogFolder
from cacheinf_ros.catalog.linear import Classes
from cacheinf_ros.catalog.specialists.dominance import Pair
from cacheinf_ros.catalog.specialists.training_set import TrainingSet, load_training_set, save_training_set
from cacheinf_ros.catalog.stored_files import read_yaml, readable_digest, write_yaml
from cacheinf_ros.catalog.variant import Catalog, Place
from cacheinf_ros.config import Config
from cacheinf_ros.disk_cache import Sha256, digest, replacing
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import Model

FOLDER = "specialise"
_FILE, _ANSWERS = "specialise.yaml", "answers.safetensors"
_Share = Annotated[FiniteFloat, Field(ge=0, le=1)]
_Milliseconds = Annotated[FiniteFloat, Field(gt=0)]
_Tensor = Annotated[str, Field(min_length=1)]


class TrunkCut(Config):
    """The network from which a small trunk is cut, and where.

    Attributes:
        tensor: the network's tensor where the trunk ends.
        variant: the variant that is cut; "": the original.
    """

    tensor: _Tensor
    variant: str = ""

    @property
    def name(self) -> str:
        """The trunk's name, such as "relu" of the original's, or "relu of prune-0.5"."""
        return f"{self.tensor} of {self.variant}" if self.variant else self.tensor


class TrunkEntry(TrunkCut):
    """A small trunk, as specialise.yaml states it.

    Attributes:
        ms: time of a dense frame.
        memory_bytes: memory of an engine with the trunk, counted as for variants.
        sha256: SHA-256 of the trunk's training set.
    """

    ms: _Milliseconds
    memory_bytes: int = Field(ge=0)
    sha256: Sha256


class UsefulTrunk(TrunkCut):
    """The value of a trunk for a skew, on held-out samples of classes drawn at random.

    Attributes:
        accuracy, ms: accuracy, and time per frame, of specialist and original together.
    """

    accuracy: _Share
    ms: _Milliseconds


class PairEntry(Config):
    """A skew for which a specialist is worth having.

    Attributes:
        n, p: see :class:`Pair`.
        accuracy: accuracy of the original alone.
        trunks: the trunks on the Pareto front for this skew, the cheapest first.
    """

    n: int = Field(ge=1)
    p: float = Field(gt=0, le=1)
    accuracy: _Share
    trunks: tuple[UsefulTrunk, ...] = Field(min_length=1)

    @property
    def pair(self) -> Pair:
        """The pair to look for."""
        return Pair(n=self.n, p=self.p)


class SpecialiseFile(Config):
    """The content of specialise.yaml.

    Attributes:
        format: version of the file format.
        classes: number of the model's classes.
        samples: number of pictures in each training set.
        data: description of the pictures, for the reader.
        variant_ms: time per frame of each variant, measured in turn with the trunks; only these get specialists.
        answers: SHA-256 of the file with the variants' answers to the samples.
        trunks: the trunks that are kept, being useful for some skew.
        pairs: the skews to look for, the most wanted first.
        dropped: names of the trunks that no skew would choose.
    """

    format: Literal[1]
    classes: int = Field(ge=2)
    samples: int = Field(ge=1)
    data: str
    variant_ms: dict[str, _Milliseconds] = Field(min_length=1)
    answers: Sha256
    trunks: tuple[TrunkEntry, ...] = Field(min_length=1)
    pairs: tuple[PairEntry, ...] = Field(min_length=1)
    dropped: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [trunk.name for trunk in self.trunks]
        if len(set(names)) != len(names):
            raise ValueError(f"two trunks have one name: {', '.join(names)}")
        unknown = {trunk.name for pair in self.pairs for trunk in pair.trunks} - set(names)
        if unknown:
            raise ValueError(f"pairs name trunks that are not there: {', '.join(sorted(unknown))}")
        if any(pair.n >= self.classes for pair in self.pairs):
            raise ValueError(f"a skew to all of {self.classes} classes is none")
        return self


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpecialiseFolder:
    """What was read from a folder ``specialise``.

    Attributes:
        path: the folder with specialise.yaml.
        file: the content of specialise.yaml.
        changes: by what changes of the original each variant's architecture is made.
    """

    path: Path
    file: SpecialiseFile
    changes: Mapping[str, tuple[Change, ...]]

    def memory_bytes(self, variant: str) -> int:
        """Return the memory of the largest small trunk that may run before a variant, which uses one at a time."""
        useful = (trunk for pair in self.pairs_for(variant) for trunk in self.trunks_for(pair, variant))
        return max((trunk.memory_bytes for trunk in useful), default=0)

    def trunks_for(self, pair: Pair, variant: str) -> tuple[TrunkEntry, ...]:
        """Return the trunks worth trying before a variant, the cheapest first.

        Variants of its own architecture, which are as slow as itself, are left out.
        """
        trunks = {trunk.name: trunk for trunk in self.file.trunks}
        useful = (trunks[each.name] for entry in self.file.pairs if entry.pair == pair for each in entry.trunks)
        generic_ms = self.file.variant_ms.get(variant, 0.0)
        return tuple(trunk for trunk in useful if trunk.ms < generic_ms and not self._is_of(trunk, variant))

    def _is_of(self, trunk: TrunkEntry, variant: str) -> bool:
        """Tell whether a trunk is a whole re-targeted variant of the same architecture as this variant."""
        return bool(trunk.variant) and self.changes[trunk.variant] == self.changes.get(variant)

    def pairs_for(self, variant: str) -> tuple[Pair, ...]:
        """Return the skews to look for while a variant answers, the most wanted first."""
        return tuple(entry.pair for entry in self.file.pairs if self.trunks_for(entry.pair, variant))

    def samples(self, entry: TrunkEntry, trunk: Model, variant: str) -> TrainingSet:
        """Read the training set for a trunk's specialist, with a variant as the generic model.

        Args:
            entry: the trunk's entry in the file.
            trunk: the trunk.
            variant: one of :attr:`SpecialiseFile.variant_ms`.

        Raises:
            CatalogError: a file cannot be read, has changed, or does not fit the others.
        """
        path = _set_file(self.path, self.file, entry.name)
        _check(path, entry.sha256)
        found = load_training_set(path, trunk)
        path = self.path / _ANSWERS
        _check(path, self.file.answers)
        try:
            answers = load_file(path)
        except (OSError, SafetensorError) as error:
            raise CatalogError(f"{path} cannot be read: {error}; {_remedy(self.path)}") from None
        named = answers.get(variant)
        fits = named is not None and named.shape == found.labels.shape and named.dtype == np.int64
        if named is None or not fits or found.classes != self.file.classes:
            raise CatalogError(f"{path} does not fit the training sets beside it; {_remedy(self.path)}")
        return replace(found, generic=named)


def read_specialise(catalog: CatalogFolder, *, compares: bool = True) -> SpecialiseFolder | None:
    """Read what specialists are made from; returns None where the catalog was built without.

    Args:
        compares: whether to check the hashes of the files, which takes time in proportion to their size.

    Raises:
        CatalogError: a file is missing, unreadable, changed, or says something impossible.
    """
    folder = catalog.path / FOLDER
    if not folder.exists():
        return None
    path = folder / _FILE
    file = read_yaml(path, SpecialiseFile, _remedy(folder))
    named = {*file.variant_ms, *(trunk.variant for trunk in file.trunks if trunk.variant)}
    unknown = named - {entry.name for entry in catalog.file.variants}
    if unknown:
        raise CatalogError(f"{path} names variants that the catalog has not: {', '.join(unknown)}; {_remedy(folder)}")
    written = {_set_file(folder, file, trunk.name): trunk.sha256 for trunk in file.trunks}
    for path, sha256 in {**written, folder / _ANSWERS: file.answers}.items():
        _check(path, sha256 if compares else None)
    changes = {entry.name: entry.changes for entry in catalog.file.variants}
    return SpecialiseFolder(path=folder, file=file, changes=changes)


def write_samples(
    catalog: CatalogFolder, sets: Sequence[TrainingSet], answers: Mapping[str, Classes]
) -> tuple[tuple[str, ...], str]:
    """Write training sets, and the classes that variants answer, into a catalog's folder.

    Args:
        sets: in the order of :attr:`SpecialiseFile.trunks`.
        answers: for each variant, the classes that it answers, int64 [samples].

    Returns:
        The SHA-256 of each training set's file, and that of the answers' file.

    Raises:
        CatalogError: the files cannot be written.
    """
    folder = catalog.path / FOLDER
    try:
        folder.mkdir(exist_ok=True)
        for number, samples in enumerate(sets):
            save_training_set(samples, _numbered(folder, number))
        with replacing(folder / _ANSWERS) as unfinished:
            save_file({name: np.ascontiguousarray(named) for name, named in answers.items()}, unfinished)
        written = [*(_numbered(folder, number) for number in range(len(sets))), folder / _ANSWERS]
        *sums, of_answers = [readable_digest(path) for path in written]
    except (OSError, SafetensorError) as error:
        raise CatalogError(f"{folder} cannot be written: {error}; make room, or build in another folder") from None
    return tuple(sums), of_answers


def write_specialise(catalog: CatalogFolder, file: SpecialiseFile) -> SpecialiseFolder:
    """Write specialise.yaml beside the files that it names, and read it back.

    Raises:
        CatalogError: the file cannot be written.
    """
    path = catalog.path / FOLDER / _FILE
    try:
        write_yaml(path, file)
    except OSError as error:
        raise CatalogError(f"{path} cannot be written: {error}; make room, or build in another folder") from None
    found = read_specialise(catalog)
    assert found is not None
    return found


def original_name(catalog: CatalogFolder) -> str:
    """Return the name of the unchanged original among the variants."""
    return next(entry.name for entry in catalog.file.variants if entry.recipe == Recipe())


def original_weights(catalog: CatalogFolder) -> str:
    """Return the SHA-256 of the unchanged original's weights, by which robots tell that their models are one."""
    return next(entry.sha256 for entry in catalog.file.variants if entry.recipe == Recipe())


def reserving(catalog: CatalogFolder) -> Catalog:
    """Return the catalog with the memory of a specialist added to each variant on the device.

    Raises:
        CatalogError: specialise.yaml or its files cannot be read.
    """
    found, plain = read_specialise(catalog, compares=False), catalog.catalog
    if found is None:
        return plain
    variants = []
    for variant in plain.variants:
        costs = dict(variant.costs)
        if Place.DEVICE in costs:
            device = costs[Place.DEVICE]
            more = found.memory_bytes(variant.name)
            costs[Place.DEVICE] = replace(device, memory_bytes=device.memory_bytes + more)
        variants.append(replace(variant, costs=costs))
    return replace(plain, variants=tuple(variants))


def _set_file(folder: Path, file: SpecialiseFile, trunk: str) -> Path:
    return _numbered(folder, [entry.name for entry in file.trunks].index(trunk))


def _numbered(folder: Path, number: int) -> Path:
    return folder / f"trunk-{number + 1}.safetensors"  # numbers, as a tensor's name may not be valid as a file name


def _check(path: Path, sha256: str | None) -> None:
    """Check that a file exists, and has this SHA-256; None: any."""
    if not path.is_file():
        raise CatalogError(f"{path} does not exist; {_remedy(path.parent)}")
    if sha256 is not None and digest(path) != sha256:
        raise CatalogError(f"{path} has changed since the catalog was built; {_remedy(path.parent)}")


def _remedy(folder: Path) -> str:
    return f"build the catalog anew with --specialise, or remove {folder} to do without specialists"
