# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the specialists before a variant are made from, and the thread that makes them while frames are served."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import torch

from cacheinf_ros.catalog.catalog_folder import CatalogFolder
from cacheinf_ros.catalog.specialists.dominance import Dominance, Pair
from cacheinf_ros.catalog.specialists.retarget import Made, Rejected, load_trunks
from cacheinf_ros.catalog.specialists.seen_classes import SeenClasses
from cacheinf_ros.catalog.specialists.specialiser import SkewRules, Specialiser
from cacheinf_ros.catalog.specialists.specialist_folder import SpecialiseFolder, original_name, read_specialise
from cacheinf_ros.errors import CacheinfError
from cacheinf_ros.graph import Model
from cacheinf_ros.low_priority import lower_priority
from cacheinf_ros.pipeline import guarded


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpecialistSource:
    """What the specialists before one variant are made from.

    Attributes:
        catalog: the variant's catalog.
        folder: the trunks and training sets in the catalog's folder.
        variant: the variant's name.
    """

    catalog: CatalogFolder
    folder: SpecialiseFolder
    variant: str

    @classmethod
    def of(cls, catalog: CatalogFolder, variant: str) -> SpecialistSource | None:
        """Read specialise.yaml; returns None where the catalog was built without specialists.

        The hashes of the training sets are checked only when a specialist is made, in its thread.

        Raises:
            CatalogError: the file cannot be read.
        """
        folder = read_specialise(catalog, compares=False)
        return None if folder is None else cls(catalog=catalog, folder=folder, variant=variant)

    def new_specialiser(self, rules: SkewRules, seen: SeenClasses) -> Specialiser:
        """Make a specialiser that looks for the skews worth a specialist before this variant.

        Args:
            seen: the model's latest results, and other robots'.
        """
        return Specialiser(self.folder.file.classes, self.folder.pairs_for(self.variant), rules, seen)


class TrunkLoader:
    """Loads the networks from which the small trunks before a variant are cut, each once; not thread-safe."""

    def __init__(self, source: SpecialistSource, say: Callable[[str], None]) -> None:
        """Load nothing yet; ``say`` is called once for each network that cannot be loaded, with the reason."""
        self._source, self._say = source, say
        self._trunks: dict[str, dict[str, Model]] = {}  # of each network that was asked for, by the trunks' names

    def load(self, pair: Pair, network: Model) -> dict[str, Model]:
        """Return the trunks that are worth trying for a skew, by name, without those that cannot be loaded.

        Args:
            network: the variant's own network; the original's and other variants' are loaded.
        """
        useful = self._source.folder.trunks_for(pair, self._source.variant)
        for variant in dict.fromkeys(entry.variant for entry in useful):
            if variant not in self._trunks:
                self._trunks[variant] = self._cut(variant, network)
        return {e.name: self._trunks[e.variant][e.name] for e in useful if e.name in self._trunks[e.variant]}

    def _cut(self, variant: str, network: Model) -> dict[str, Model]:
        catalog, cuts = self._source.catalog, self._source.folder.file.trunks
        name = variant or original_name(catalog)
        try:
            whole = network if name == self._source.variant else catalog.network(name)
            return load_trunks([cut for cut in cuts if cut.variant == variant], lambda _: whole)
        except CacheinfError as error:
            self._say(f"small trunks are missing: {variant or 'the original'} cannot be loaded: {error}")
            return {}


class SpecialistThread:
    """Makes one specialist in a thread of low priority.

    Attributes:
        dominance: the skew that the specialist is for.
        outcome: the outcome; None: the thread still runs, or was cancelled.
    """

    def __init__(self, dominance: Dominance, work: Callable[[Callable[[], bool]], Made | Rejected | None]) -> None:
        """Start the thread; ``work`` is passed a function that tells whether the thread is cancelled."""
        self.dominance = dominance
        self.outcome: Made | Rejected | None = None
        self._cancelled = threading.Event()
        self._threads = torch.get_num_threads()  # read here: the new thread would see what any thread has set last
        threading.Thread(target=self._run, args=(work,), name="specialising", daemon=True).start()

    def cancel(self) -> None:
        """Make the thread stop soon, without an outcome; does not wait for it."""
        self._cancelled.set()

    def _run(self, work: Callable[[Callable[[], bool]], Made | Rejected | None]) -> None:
        with guarded("a specialist") as failure:
            lower_priority()
            torch.set_num_threads(1)  # here: so small a problem is slower with more, especially beside frames
            try:
                self.outcome = work(self._cancelled.is_set)
            except (CacheinfError, RuntimeError, ValueError, MemoryError) as error:
                self.outcome = Rejected(why=f"it could not be made: {error}")
            finally:
                torch.set_num_threads(self._threads)  # threads that start later inherit the number set last
        if failure:  # without an outcome the caller would wait for ever
            self.outcome = Rejected(why=f"it could not be made: {failure.reason}")
