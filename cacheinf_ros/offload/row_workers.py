# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A server's workers that compute rows, which also state what their operators take on this machine."""

from __future__ import annotations

import logging

from cacheinf_ros.engine import PartitionWorker
from cacheinf_ros.offload.planning import profile
from cacheinf_ros.offload.protocol.greeting import Identity
from cacheinf_ros.offload.protocol.row_service import RowWorker
from cacheinf_ros.offload.protocol.server_profile import states_times
from cacheinf_ros.offload.searching import ScheduleSearches, server_side

_log = logging.getLogger(__name__)


class RowWorkers:
    """Makes the workers of one server. Not thread-safe."""

    def __init__(self, searches: ScheduleSearches | None = None) -> None:
        """Prepare; ``searches`` finds schedules on behalf of robots; None: they search for themselves."""
        self._searches = searches
        self._untimed: set[str] = set()  # networks that this has been logged for

    def worker(self, asked: Identity, partition: PartitionWorker) -> RowWorker:
        """Return a worker that states what the model's operators take on this machine.

        It states nothing where they could not be timed, because zeros would be believed.
        """
        stated = profile(partition.program.layout, partition.space, partition.cost).tolist()
        if states_times(partition.space, stated):
            if self._searches is None:
                return RowWorker(partition, stated)
            side = server_side(asked.network, partition.program.layout, partition.space, stated)
            return RowWorker(partition, stated, self._searches.about(side))
        if asked.network not in self._untimed:
            self._untimed.add(asked.network)
            _log.warning(
                "the operators of %s could not be timed on %s, so that no robot shares frames with this server: only "
                "compiled kernels can be (`make build` for device cpu, `pip install triton` for cuda; "
                "`cacheinf doctor` says what is there); robots with server.policy remote_jpeg are served all the same",
                asked.model, partition.program.input.pixels.device,
            )  # fmt: skip
        return RowWorker(partition, [])
