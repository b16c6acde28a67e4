# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Models in the object store of a machine of a Ray cluster, whose memory all of its processes share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cacheinf_ros.errors import LinkError
from cacheinf_ros.fleet.ray_library import PATIENCE_S, cause, ray

if TYPE_CHECKING:  # torch is for the processes that compute
    from cacheinf_ros.fleet.shared_weights import ModelContent


class RayModels:
    """Implements :class:`.shared_weights.ModelStore` for one process.

    A model belongs to the process that has stored it: when that ends, those that use the model keep it, but a later
    process has to store it anew.
    """

    def __init__(self, director: Any, machine: str, host: str) -> None:
        """Prepare; ``director`` is the actor, see :class:`.ray_actors.Director`, ``host`` this process's name."""
        self._director = director
        self._machine = machine
        self._host = host

    def find(self, key: str) -> ModelContent | None:
        """Implement :meth:`.ModelStore.find`."""
        found = self._get(self._director.find_model.remote(self._machine, key, self._host))
        try:
            content: ModelContent | None = ray().get(found[0], timeout=PATIENCE_S) if found else None
        except ray().exceptions.ObjectLostError:
            return None  # lost with the process that had stored it
        except ray().exceptions.RayError as error:
            raise LinkError(f"Ray's object store does not answer: {cause(error)}") from None
        return content

    def hold(self, key: str, content: ModelContent) -> None:
        """Implement :meth:`.ModelStore.hold`."""
        try:
            reference = ray().put(content)
        except (ray().exceptions.RayError, OSError) as error:
            raise LinkError(f"{content.size / 1e6:.0f} MB do not go into Ray's object store: {cause(error)}") from None
        self._get(self._director.hold_model.remote(self._machine, key, self._host, [reference]))

    def _get(self, asked: Any) -> Any:
        try:
            return ray().get(asked, timeout=PATIENCE_S)
        except (ray().exceptions.RayError, ConnectionError) as error:
            raise LinkError(f"Ray does not answer: {cause(error)}") from None
