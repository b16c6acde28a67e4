# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Adds to a catalog what specialists are made from: small trunks, their features of labelled pictures, useful skews."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cacheinf_ros.catalog.build.measured_architecture import frames_ms, resident_bytes
from cacheinf_ros.catalog.catalog_folder import CatalogFolder
from cacheinf_ros.catalog.labelled_pictures import (
    PICTURES_PER_SCENE,
    SCENE_ATTRIBUTES,
    Labelled,
    folder_labels,
    folder_samples,
    scene_samples,
)
from cacheinf_ros.catalog.linear import Classes
from cacheinf_ros.catalog.specialists.cascade import class_output
from cacheinf_ros.catalog.specialists.dominance import Pair
from cacheinf_ros.catalog.specialists.pareto import Candidate, assess, is_dominated, pareto, useful_pairs
from cacheinf_ros.catalog.specialists.retarget import load_trunks
from cacheinf_ros.catalog.specialists.specialist_folder import (
    PairEntry,
    SpecialiseFile,
    SpecialiseFolder,
    TrunkCut,
    TrunkEntry,
    UsefulTrunk,
    original_name,
    write_samples,
    write_specialise,
)
from cacheinf_ros.catalog.specialists.training_set import TrainingSet, training_sets
from cacheinf_ros.catalog.trunks import MOST_FLOPS, small_trunks
from cacheinf_ros.catalog.variant import Place
from cacheinf_ros.engine import Engine, EngineConfig
from cacheinf_ros.errors import CatalogError, ModelError
from cacheinf_ros.graph import Model
from cacheinf_ros.graph.trunk import last_layer
from cacheinf_ros.mode import Mode

SCENES = "scenes"
"""The source that stands for built-in scenes instead of a folder of pictures."""
_LIGHTS = ("bright",)  # in the dark the classifier is hardly ever right, and comparing with it means little


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelledData:
    """Pictures whose classes are known.

    Attributes:
        samples: the pictures, with the model's own class numbers.
        attribute: the attribute that holds the class.
        description: what the pictures are, for the reader of the catalog.
    """

    samples: Iterable[Labelled]
    attribute: str
    description: str


def check_specialisable(model: Model) -> None:
    """Check that a model can have specialists at all, before anything is built.

    Raises:
        CatalogError: the model is no classifier, or has no small trunks.
    """
    class_output(model)
    try:
        last_layer(model.graph)
    except ModelError as error:
        raise CatalogError(f"model {model.name} cannot be specialised: {error}") from None
    if not small_trunks(model):
        raise CatalogError(f"model {model.name} cannot be specialised: it has no earlier convolution to end at")


def labelled_data(model: Model, source: str, scenes: int, seed: int) -> LabelledData:
    """Open labelled pictures of a classifier's classes; nothing is read yet.

    Args:
        source: a folder as for :func:`folder_samples`, whose classes are named as in the model's card; or
            :data:`SCENES`.
        scenes: number of built-in scenes; four pictures are taken of each.

    Raises:
        CatalogError: the pictures are not labelled with the model's classes.
    """
    known = SCENE_ATTRIBUTES if source == SCENES else folder_labels(Path(source))
    attribute = _attribute(model, known, source)
    if source == SCENES:
        samples = scene_samples(scenes, PICTURES_PER_SCENE, model.input_size, seed, lights=_LIGHTS)
        return LabelledData(
            samples=samples, attribute=attribute, description=f"{scenes} built-in scenes, seed {seed}: {attribute}"
        )
    names = model.card.labels
    numbers = [names.index(label) for label in known[attribute]]
    renamed = _renumbered(folder_samples(Path(source), [attribute]), attribute, numbers)
    return LabelledData(samples=renamed, attribute=attribute, description=f"{Path(source).resolve()}: {attribute}")


def add_specialise(
    catalog: CatalogFolder, data: LabelledData, *, threads: int = 2, say: Callable[[str], None] = lambda _: None
) -> SpecialiseFolder:
    """Make what a catalog's specialists are made from, and write it into the catalog's folder.

    The pictures are run through variants and through small trunks (the original's, and those of :func:`variant_cuts`),
    these are timed, and trunks that no skew would choose are dropped.

    Args:
        catalog: as it was built.
        data: see :func:`labelled_data`.
        say: called with a message before each step.

    Raises:
        CatalogError: nothing is worth specialising, or the folder cannot be written.
    """
    whole = original_name(catalog)
    variants = {
        e.name: catalog.load(e.name)
        for e in catalog.file.variants
        if (Place.DEVICE in e.costs and not e.int8) or e.name == whole
    }
    original = variants[whole]
    cuts = (*_original_cuts(original), *variant_cuts(catalog, variants))
    trunks = load_trunks(cuts, lambda variant: variants[variant or whole])
    say("specialising: pre-forwarding")
    sets, answers = _forwarded(original, trunks, variants, data)
    say("specialising: measuring")
    trunk_ms, variant_ms, memory = _measured(trunks, variants, threads)
    say("specialising: winnowing")
    worth = assess(sets, trunk_ms, variant_ms[whole])
    pairs = tuple(_pair_entry(pair, worth[pair], cuts) for pair in useful_pairs(worth))
    if not pairs:
        raise CatalogError(
            f"the catalog in {catalog.path} is complete, but has no specialists: no small trunk is both cheaper than "
            f"{original.name} and good enough; label more pictures, or more scenes"
        )
    best = pareto(worth)
    kept = [cut for cut in cuts if cut.name in best]
    sums, of_answers = write_samples(catalog, [sets[cut.name] for cut in kept], answers)
    file = SpecialiseFile(
        format=1,
        classes=sets[kept[0].name].classes,
        samples=len(answers[whole]),
        data=data.description,
        variant_ms=variant_ms,
        answers=of_answers,
        trunks=tuple(
            TrunkEntry(**cut.model_dump(), ms=trunk_ms[cut.name], memory_bytes=memory[cut.name], sha256=sha256)
            for cut, sha256 in zip(kept, sums, strict=True)
        ),
        pairs=pairs,
        dropped=tuple(cut.name for cut in cuts if cut not in kept),
    )
    return write_specialise(catalog, file)


def _original_cuts(original: Model) -> Iterator[TrunkCut]:
    for trunk in small_trunks(original):
        yield TrunkCut(tensor=trunk.name.removeprefix(f"{original.name}@"))


def variant_cuts(catalog: CatalogFolder, variants: Mapping[str, Model]) -> Iterator[TrunkCut]:
    """Yield a cut before the last layer of each architecture with at most :data:`MOST_FLOPS` of the original's flops.

    These are the re-targeted variants of MCDNN, section 5.2.1. Of variants that differ in the width of their weights
    alone, the most accurate is cut.

    Args:
        variants: the networks of those variants that may be cut, and of the original.
    """
    whole = variants[original_name(catalog)]
    seen = {catalog.entry(original_name(catalog)).changes}
    for entry in catalog.file.variants:  # the most accurate first
        if entry.name not in variants or entry.changes in seen:
            continue
        seen.add(entry.changes)
        graph = variants[entry.name].graph
        if graph.total_flops <= MOST_FLOPS * whole.graph.total_flops:
            with suppress(ModelError):  # of what has lost its last linear layer nothing can be re-targeted
                yield TrunkCut(tensor=last_layer(graph).inputs[0], variant=entry.name)


def _forwarded(
    original: Model, trunks: Mapping[str, Model], variants: Mapping[str, Model], data: LabelledData
) -> tuple[dict[str, TrainingSet], dict[str, Classes]]:
    """Return the training set of each trunk, and the classes that each variant answers; pictures are read once."""
    models = [*trunks.values(), *variants.values()]
    found = training_sets(original, models, data.samples, data.attribute)
    answers = found[len(trunks) :]  # the "features" of a whole variant are its logits
    return (
        dict(zip(trunks, found, strict=False)),
        {name: each.features.argmax(axis=1) for name, each in zip(variants, answers, strict=True)},
    )


def _measured(
    trunks: Mapping[str, Model], variants: Mapping[str, Model], threads: int
) -> tuple[dict[str, float], dict[str, float], dict[str, int]]:
    """Time dense frames, ms, of trunks and variants in turn; returns both, and the bytes that trunks take."""
    config = EngineConfig(mode=Mode.DENSE, cache_budget_mb=0.0, threads=threads)
    small = {name: Engine(trunk, config) for name, trunk in trunks.items()}
    whole = {name: Engine(variant, config) for name, variant in variants.items()}
    size = next(iter(variants.values())).input_size
    took = iter(frames_ms([*small.values(), *whole.values()], np.zeros((*size, 3), np.uint8)))
    return (
        {name: round(next(took), 4) for name in small},
        {name: round(next(took), 4) for name in whole},
        {name: resident_bytes(engine) for name, engine in small.items()},
    )


def _pair_entry(pair: Pair, candidates: tuple[Candidate, ...], cuts: Sequence[TrunkCut]) -> PairEntry:
    by_name = {cut.name: cut.model_dump() for cut in cuts}
    generic = next(each for each in candidates if not each.is_specialised)
    front = [each for each in candidates if each.is_specialised and not is_dominated(each, candidates)]
    ranked = sorted(front, key=lambda each: each.cost)
    return PairEntry(
        n=pair.n,
        p=pair.p,
        accuracy=round(generic.accuracy, 4),
        trunks=tuple(
            UsefulTrunk(**by_name[e.name], accuracy=round(e.accuracy, 4), ms=round(e.cost, 4)) for e in ranked
        ),
    )


def _attribute(model: Model, known: Mapping[str, tuple[str, ...]], source: str) -> str:
    """Return the attribute whose classes are the model's."""
    fitting = [name for name, classes in known.items() if set(classes) <= set(model.card.labels)]
    if len(fitting) == 1:
        return fitting[0]
    if not model.card.labels:
        raise CatalogError(f"model {model.name} has no names of classes: give it a card with `labels`")
    has = "; ".join(f"{name} with {', '.join(classes)}" for name, classes in known.items())
    raise CatalogError(
        f"pictures labelled with classes of {model.name} ({', '.join(model.card.labels[:20])}) are needed in exactly "
        f"one attribute, SOURCE/ATTRIBUTE/CLASS/picture.png; {source} has {has}"
    )


def _renumbered(samples: Iterable[Labelled], attribute: str, numbers: list[int]) -> Iterator[Labelled]:
    """Replace class numbers by the model's: folders number classes by name, the model as in its card."""
    for sample in samples:
        yield replace(sample, classes={attribute: numbers[sample.classes[attribute]]})
