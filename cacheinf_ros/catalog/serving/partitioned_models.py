# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The models that a server computes, wholly or in part: its own and variants from catalogs, found by their hashes."""

from __future__ import annotations

from collections.abc import Iterable

from cacheinf_ros.catalog.catalog_folder import CatalogFolder
from cacheinf_ros.errors import MessageError
from cacheinf_ros.graph import Model
from cacheinf_ros.offload import Identity


def identity_of_variant(folder: CatalogFolder, name: str) -> Identity:
    """What a robot that does not load a variant itself asks a server for it with.

    Raises:
        CatalogError: there is no such variant.
        ModelError: the card of the catalog's original cannot be read.
    """
    return Identity.stated(f"{folder.file.name}/{name}", folder.entry(name).graph, folder.cards[0])


class SplitModels:
    """Finds models by the hash of graph, weights and preparation. Variants are loaded when asked for, and not kept."""

    def __init__(self, own: Model, folders: Iterable[CatalogFolder]) -> None:
        """Prepare; no variant is loaded: catalogs say the hashes of their graphs.

        Raises:
            ModelError: the card of a catalog's original cannot be read.
        """
        self._own, self._own_network = own, Identity.of(own).network
        self.offer(folders)

    def offer(self, folders: Iterable[CatalogFolder]) -> None:
        """Have variants of these catalogs found from now on, and of no others; while other threads look for some.

        Raises:
            ModelError: the card of a catalog's original cannot be read; then nothing has changed.
        """
        variants: dict[str, tuple[CatalogFolder, str]] = {}
        names: list[str] = []
        for folder in folders:
            names.append(folder.file.name)
            for card in folder.cards:
                for entry in (each for each in folder.file.variants if not each.int8):  # these run on devices alone
                    network = Identity.stated(entry.name, entry.graph, card).network
                    variants.setdefault(network, (folder, entry.name))
        self._variants, self._names = variants, names

    def is_own(self, model: Model) -> bool:
        """Whether a model is the server's own."""
        return model is self._own

    def find(self, asked: Identity, *, prepares: bool = True) -> Model:
        """The model with this hash; loaded, which takes its time, unless it is the server's own.

        Args:
            asked: for which model.
            prepares: whether the robot prepares images, so that its card must be the model's; where the server does,
                any card will do that is possible by the catalog.

        Raises:
            MessageError: there is none.
            CatalogError: its weights are missing or changed.
        """
        if asked.network == self._own_network:
            return self._own
        found = self._variants.get(asked.network)
        if found is not None:
            folder, name = found
            model = folder.network(name)
            if (
                not prepares or Identity.of(model).network == asked.network
            ):  # the hash may have been of another of the cards
                return model
        also = f" and has catalogs of {', '.join(self._names)}" if self._names else ""
        raise MessageError(
            f"the server runs {self._own.name!r}{also}, the robot {asked.model!r} with another graph, weights or card: "
            "start both with the same model, weights and input size, or the same catalogs"
        )
