# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The models that a server computes, whole or in part: its own and variants from catalogs, found by their hashes."""

from __future__ import annotations

from collections.abc import Iterable

from cacheinf_ros.catalog.catalog_folder import CatalogFolder
from cacheinf_ros.errors import MessageError
from cacheinf_ros.graph import Model
from cacheinf_ros.offload import Identity


def identity_of_variant(folder: CatalogFolder, name: str) -> Identity:
    """Return the identity by which a robot that does not load a variant itself asks a server for it.

    Raises:
        CatalogError: the catalog has no such variant.
        ModelError: the card of the catalog's original cannot be read.
    """
    return Identity.stated(f"{folder.file.name}/{name}", folder.entry(name).graph, folder.cards[0])


class SplitModels:
    """Finds models by the hash of graph, weights and preparation; variants are loaded on each request, and not kept."""

    def __init__(self, own: Model, folders: Iterable[CatalogFolder]) -> None:
        """Prepare; no variant is loaded, as catalogs state the hashes of their graphs.

        Raises:
            ModelError: the card of a catalog's original cannot be read.
        """
        self._own, self._own_network = own, Identity.of(own).network
        self.offer(folders)

    def offer(self, folders: Iterable[CatalogFolder]) -> None:
        """Offer the variants of these catalogs, and no others, from now on; thread-safe with respect to :meth:`find`.

        Raises:
            ModelError: the card of a catalog's original cannot be read; then nothing has changed.
        """
        variants: dict[str, tuple[CatalogFolder, str]] = {}
        names: list[str] = []
        for folder in folders:
            names.append(folder.file.name)
            for card in folder.cards:
                for entry in (each for each in folder.file.variants if not each.int8):  # int8 is for devices alone
                    network = Identity.stated(entry.name, entry.graph, card).network
                    variants.setdefault(network, (folder, entry.name))
        self._variants, self._names = variants, names

    def is_own(self, model: Model) -> bool:
        """Tell whether a model is the server's own."""
        return model is self._own

    def find(self, asked: Identity, *, prepares: bool = True) -> Model:
        """Return the model with this hash; a variant is loaded, which takes time, unlike the server's own model.

        Args:
            asked: the identity of the wanted model.
            prepares: whether the robot prepares images, so that its card must be the model's; where the server does,
                any card is accepted that the catalog allows.

        Raises:
            MessageError: there is no such model.
            CatalogError: the variant's weights are missing or changed.
        """
        if asked.network == self._own_network:
            return self._own
        found = self._variants.get(asked.network)
        if found is not None:
            folder, name = found
            model = folder.network(name)
            if (
                not prepares or Identity.of(model).network == asked.network
            ):  # the hash may belong to another of the cards
                return model
        raise self._unknown(asked)

    def check(self, asked: Identity) -> None:
        """Check that there may be a model with this hash, without loading it.

        Raises:
            MessageError: there is no such model.
        """
        if asked.network != self._own_network and asked.network not in self._variants:
            raise self._unknown(asked)

    def _unknown(self, asked: Identity) -> MessageError:
        also = f" and has catalogs of {', '.join(self._names)}" if self._names else ""
        return MessageError(
            f"the server runs {self._own.name!r}{also}, the robot {asked.model!r} with another graph, weights or card: "
            "start both with the same model, weights and input size, or the same catalogs"
        )
