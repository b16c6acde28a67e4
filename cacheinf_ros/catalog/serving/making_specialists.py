# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What specialists before a variant are made from, and the thread that makes them beside the frames."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import torch

from cacheinf_ros.catalog.catalog_folder import CatalogFolder
from cacheinf_ros.catalog.specialists.dominance import Dominance
from cacheinf_ros.catalog.specialists.retarget import Made, Rejected, load_trunks
from cacheinf_ros.catalog.specialists.specialiser import SkewRules, Specialiser
from cacheinf_ros.catalog.specialists.specialist_folder import SpecialiseFolder, original_name, read_specialise
from cacheinf_ros.errors import CacheinfError
from cacheinf_ros.graph import Model
from cacheinf_ros.low_priority import lower_priority
from cacheinf_ros.pipeline import guarded


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpecialistSource:
    """What specialists before one variant are made from.

    Attributes:
        catalog: that the variant is from.
        folder: trunks and samples beside it.
        variant: its name.
    """

    catalog: CatalogFolder
    folder: SpecialiseFolder
    variant: str

    @classmethod
    def of(cls, catalog: CatalogFolder, variant: str) -> SpecialistSource | None:
        """Read what it says; None where the catalog has nothing that specialists are made from.

        Whether files are those that were written is seen when a specialist is made, in that thread.

        Raises:
            CatalogError: it cannot be read.
        """
        folder = read_specialise(catalog, compares=False)
        return None if folder is None else cls(catalog=catalog, folder=folder, variant=variant)

    def new_specialiser(self, rules: SkewRules) -> Specialiser:
        """Look for the skews that are worth a specialist before this variant."""
        return Specialiser(self.folder.file.classes, self.folder.pairs_for(self.variant), rules)

    def trunks(self, network: Model) -> dict[str, Model]:
        """Load the small trunks, which are the original's own.

        Args:
            network: of the variant: if that is the original, it need not be loaded.

        Raises:
            CacheinfError: the original cannot be loaded.
        """
        name = original_name(self.catalog)
        return load_trunks(self.folder, network if name == self.variant else self.catalog.network(name))


class SpecialistThread:
    """Makes one specialist, at low priority.

    Attributes:
        dominance: what the specialist is for.
        outcome: None: not yet there, or cancelled.
    """

    def __init__(self, dominance: Dominance, work: Callable[[Callable[[], bool]], Made | Rejected | None]) -> None:
        """Start; ``work`` is told by its argument whether it is cancelled."""
        self.dominance = dominance
        self.outcome: Made | Rejected | None = None
        self._cancelled = threading.Event()
        self._threads = torch.get_num_threads()  # in the new thread it would be what another one has set last
        threading.Thread(target=self._run, args=(work,), name="specialising", daemon=True).start()

    def cancel(self) -> None:
        """Stop soon, without an outcome; nobody waits for it."""
        self._cancelled.set()

    def _run(self, work: Callable[[Callable[[], bool]], Made | Rejected | None]) -> None:
        with guarded("a specialist") as failure:
            lower_priority()
            torch.set_num_threads(1)  # of this thread: so small a problem is slower with more, beside frames by far
            try:
                self.outcome = work(self._cancelled.is_set)
            except (CacheinfError, RuntimeError, ValueError, MemoryError) as error:
                self.outcome = Rejected(why=f"it could not be made: {error}")
            finally:
                torch.set_num_threads(self._threads)  # threads that start later begin with the last number set
        if failure:  # without an outcome it would be waited for, and then made again, for ever
            self.outcome = Rejected(why=f"it could not be made: {failure.reason}")
