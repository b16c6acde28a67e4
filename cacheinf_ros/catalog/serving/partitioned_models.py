# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The models of which a server computes parts: its own, and variants from catalogs, found by what robots greet with."""

from __future__ import annotations

from collections.abc import Iterable

from cacheinf_ros.catalog.catalog_folder import CatalogFolder
from cacheinf_ros.errors import MessageError
from cacheinf_ros.graph import Model
from cacheinf_ros.offload import Identity


class SplitModels:
    """By the hash of graph, weights and preparation. Variants are loaded when they are asked for, and not kept."""

    def __init__(self, own: Model, folders: Iterable[CatalogFolder]) -> None:
        """Prepare; no variant is loaded: catalogs say the hashes of their graphs.

        Raises:
            ModelError: the card of a catalog's original cannot be read.
        """
        self._own, self._own_network = own, Identity.of(own).network
        self._variants: dict[str, tuple[CatalogFolder, str]] = {}
        self._names: list[str] = []
        for folder in folders:
            self._names.append(folder.file.name)
            for card in folder.cards:
                for entry in folder.file.variants:
                    network = Identity.stated(entry.name, entry.graph, card).network
                    self._variants.setdefault(network, (folder, entry.name))

    def find(self, asked: Identity) -> Model:
        """The model with this hash; loaded, which takes its time, unless it is the server's own.

        Raises:
            MessageError: there is none.
            CatalogError: its weights are missing or changed.
        """
        if asked.network == self._own_network:
            return self._own
        if asked.network in self._variants:
            folder, name = self._variants[asked.network]
            model = folder.network(name)
            if Identity.of(model).network == asked.network:  # the hash may have been of another of the cards
                return model
        also = f" and has catalogs of {', '.join(self._names)}" if self._names else ""
        raise MessageError(
            f"the server runs {self._own.name!r}{also}, the robot {asked.model!r} with another graph, weights or card: "
            "start both with the same model, weights and input size, or the same catalogs"
        )
