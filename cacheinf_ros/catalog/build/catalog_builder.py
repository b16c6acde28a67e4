# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Builds a catalog: applies every technique at every strength, fine-tunes, measures, and keeps the Pareto front."""

from __future__ import annotations

import copy
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from cacheinf_ros.catalog.build.catalog_frames import Data
from cacheinf_ros.catalog.build.finetune import TuningConfig, Tutor
from cacheinf_ros.catalog.build.measured_architecture import image_bytes_per_pixel, measure
from cacheinf_ros.catalog.build.techniques import (
    Change,
    Inapplicable,
    Recipe,
    Technique,
    pack,
    perform,
    planned,
    unpack,
)
from cacheinf_ros.catalog.build.techniques.change import BITS
from cacheinf_ros.catalog.build.techniques.quantise import packed_bytes
from cacheinf_ros.catalog.build.variant_accuracy import Judge
from cacheinf_ros.catalog.catalog_folder import (
    FILE,
    CatalogFile,
    CatalogFolder,
    VariantEntry,
    cost_entries,
    read_catalog,
    write_catalog,
)
from cacheinf_ros.catalog.prices import Measured, PriceConfig, costs_of
from cacheinf_ros.catalog.variant import Cost, Place, pareto_front
from cacheinf_ros.catalog.variant_files import scales_file, weights_file, write_scales, write_weights
from cacheinf_ros.energy import PowerModel
from cacheinf_ros.engine import Preprocessor
from cacheinf_ros.engine.quantisation import own_scales, quantise
from cacheinf_ros.errors import CacheinfError, CatalogError
from cacheinf_ros.graph import Model, graph_hash, model_of

STRENGTHS = {
    Technique.FACTORISE: (0.5, 0.25, 0.125),  # as in the paper
    Technique.FEWER_KERNELS: (0.75, 0.5, 0.25),
    Technique.LARGER_STRIDE: (2.0,),
    Technique.SMALLER_DENSE: (0.5, 0.25),
    Technique.FEWER_LAYERS: (1.0, 2.0),
}
"""The strengths of each technique, from mild to harsh."""
_QUANTISED_ON = 32  # at least so many training frames, where there are enough
_SHOWN = 4  # training frames by which the layers to leave out are chosen
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildConditions:
    """How variants are tuned, and what is assumed where they run; ``threads`` are those of this machine."""

    tuning: TuningConfig = field(default_factory=TuningConfig)
    prices: PriceConfig = field(default_factory=PriceConfig)
    power: PowerModel = field(default_factory=PowerModel)
    threads: int = 2


class _Stored(NamedTuple):
    """A variant whose weights are written: as it will be loaded, bytes of all weights, and the file's SHA-256."""

    model: Model
    bytes: int
    sha256: str


class Builder:
    """Makes variants of one model and writes their weights into a folder."""

    def __init__(
        self,
        reference: str,
        model: Model,
        data: Data,
        folder: Path,
        conditions: BuildConditions = BuildConditions(),
    ) -> None:
        """Compute the right answers to the frames.

        Args:
            reference: where the model is found again when a variant is loaded.
            folder: the catalog's folder.
            conditions: how variants are tuned and costs predicted.

        Raises:
            CatalogError: there is a catalog in the folder, the model's name has a slash, or right answers cannot be
                determined.
        """
        if (folder / FILE).exists():
            raise CatalogError(f"there is a catalog in {folder}; name another folder, or remove it")
        if "/" in model.name:
            raise CatalogError(f"a catalog cannot be called {model.name!r}: give the model a name without a slash")
        torch.set_num_threads(conditions.threads)
        self._reference, self._model, self._data, self._folder = reference, model, data, folder
        self._conditions = conditions
        self._judge = Judge(model, data.held_out)
        self._tutor = Tutor(model, data.training, conditions.tuning)
        images = [sample.image for sample in data.held_out]
        self._image = images[0]
        self._pixel_bytes = image_bytes_per_pixel(images, model.card)
        preprocessor = Preprocessor(model.card)
        shown = (list(data.training) or images)[:_SHOWN]
        self._shown = [torch.from_numpy(preprocessor.input(image)) for image in shown]

    def build(
        self,
        techniques: Sequence[Technique] = tuple(Technique),
        bits: Sequence[int] = BITS,
        say: Report = lambda _: None,
        *,
        int8: bool = True,
    ) -> CatalogFolder:
        """Make and measure the variants, write the catalog, and return it.

        Args:
            int8: whether each architecture also becomes a variant that is computed in int8, where that can be.
            say: called with a message before each step.

        Raises:
            CatalogError: the folder cannot be written.
        """
        left_out: dict[str, str] = {}
        if int8 and (reason := self._obstacle_to_int8()):
            int8, left_out["int8"] = False, reason
        entries = self._of_architecture(self._model.module, (), tuple(dict.fromkeys((32, *bits))), say)
        if int8:
            entries += self._in_int8(self._model.module, (), left_out, say)
        for technique in techniques:
            for strength in STRENGTHS[technique]:
                try:
                    change = planned(self._model.module, technique, strength, self._shown)
                    module = perform(self._model.module, (change,), self._model.input_size)
                except Inapplicable as reason:
                    left_out[f"{technique.value} {strength:g}"] = str(reason)
                    continue
                if self._tutor.teaches:
                    say(f"fine-tuning {change.name}")
                module = self._tutor.teach(module)
                entries += self._of_architecture(module, (change,), tuple(bits), say)
                if int8:
                    entries += self._in_int8(module, (change,), left_out, say)
        folder = self._written(entries, left_out)
        folder.prepare(say)
        return folder

    def _obstacle_to_int8(self) -> str:
        if own_scales(self._model) is not None:
            return "the model is quantised already: its variants run in int8 with precision int8"
        return "" if self._data.training else "it needs frames for its scales: give some with --data"

    def _of_architecture(
        self, module: nn.Module, changes: tuple[Change, ...], bits: Sequence[int], say: Report
    ) -> list[VariantEntry]:
        """Make variants of one architecture that differ in weight bits; as float32 they share one timing."""
        say(f"measuring {Recipe(changes=changes).name}")
        measured = measure(model_of(module, self._model.card), self._image, self._conditions.threads)
        return [self._variant(module, Recipe(changes=changes, bits=each), measured) for each in bits]

    def _variant(self, module: nn.Module, recipe: Recipe, measured: Measured) -> VariantEntry:
        stored = self._stored(module, recipe)
        accuracy = self._judge.accuracy(stored.model.module)
        return _entry(recipe, stored, accuracy, self._costs(measured, stored.bytes))

    def _in_int8(
        self, module: nn.Module, changes: tuple[Change, ...], left_out: dict[str, str], say: Report
    ) -> list[VariantEntry]:
        """Make the int8 variant of an architecture, for the device alone: a server may have no int8 kernels."""
        recipe = Recipe(changes=changes, bits=8, int8=True)
        say(f"quantising {recipe.name}")
        stored = self._stored(module, recipe)
        frames, threads = self._data.training, self._conditions.threads
        try:
            scales = quantise(stored.model, frames[:: max(1, len(frames) // _QUANTISED_ON)], threads).scales
            model = replace(stored.model, scales=scales)
            say(f"measuring {recipe.name}")
            costs = self._costs(measure(model, self._image, threads), stored.bytes)
        except CacheinfError as error:
            weights_file(self._folder, recipe.name).unlink()
            left_out[recipe.name] = str(error)
            return []
        accuracy = self._judge.accuracy_in_int8(model, threads)
        sha256 = write_scales(self._folder, recipe.name, scales)
        return [_entry(recipe, stored, accuracy, {Place.DEVICE: costs[Place.DEVICE]}, sha256)]

    def _stored(self, module: nn.Module, recipe: Recipe) -> _Stored:
        """Write a variant's weights, and return it as it will be loaded."""
        # only training needs batch counters
        state = {k: v for k, v in module.state_dict().items() if not k.endswith("num_batches_tracked")}
        packed = pack(state, recipe.bits)
        rounded = copy.deepcopy(module)
        rounded.load_state_dict(unpack(packed))
        sha256 = write_weights(self._folder, recipe.name, packed)
        return _Stored(model_of(rounded, self._model.card), packed_bytes(packed), sha256)

    def _written(self, entries: Sequence[VariantEntry], left_out: dict[str, str]) -> CatalogFolder:
        """Write the catalog: the Pareto front and the original with weights, the others as figures only."""
        best = {variant.name for variant in pareto_front(entry.variant for entry in entries)} | {Recipe().name}
        ranked = sorted(entries, key=lambda entry: -entry.accuracy)
        for entry in ranked:
            if entry.name not in best:
                weights_file(self._folder, entry.name).unlink()
                scales_file(self._folder, entry.name).unlink(missing_ok=True)
        write_catalog(
            self._folder,
            CatalogFile(
                format=1,
                name=self._model.name,
                model=self._reference,
                input_size=self._model.input_size,
                measure=self._judge.measure.value,
                data=self._data.description,
                conditions=self._said_conditions(),
                variants=tuple(entry for entry in ranked if entry.name in best),
                dominated=tuple(
                    e.model_copy(update={"sha256": "", "scales_sha256": ""}) for e in ranked if e.name not in best
                ),
                left_out=left_out,
            ),
        )
        return read_catalog(self._folder)

    def _costs(self, measured: Measured, stored: int) -> dict[Place, Cost]:
        return costs_of(measured, stored, self._pixel_bytes, self._conditions.prices, self._conditions.power)

    def _said_conditions(self) -> dict[str, str | float | int]:
        """Describe the build conditions for the reader of the catalog."""
        using = self._conditions
        return {
            "device": f"{platform.node()}, {platform.processor() or platform.machine()}, {using.threads} threads",
            "server": f"modelled, {using.prices.server_speedup:g} times this machine",
            "image_bytes_per_pixel": round(self._pixel_bytes, 4),
            **using.prices.model_dump(),
            **using.power.model_dump(),
            **using.tuning.model_dump(),
        }


def _entry(
    recipe: Recipe, stored: _Stored, accuracy: float, costs: Mapping[Place, Cost], scales_sha256: str = ""
) -> VariantEntry:
    return VariantEntry(
        name=recipe.name,
        accuracy=accuracy,
        bits=recipe.bits,
        changes=recipe.changes,
        stored_bytes=stored.bytes,
        graph=graph_hash(stored.model.graph),
        sha256=stored.sha256,
        int8=recipe.int8,
        scales_sha256=scales_sha256,
        costs=cost_entries(costs),
    )
