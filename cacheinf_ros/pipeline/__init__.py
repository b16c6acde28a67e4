# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Process one frame without ROS: choose it, find what is reusable for it, run it, and track the node's health."""

from cacheinf_ros.pipeline.backlog import Backlog
from cacheinf_ros.pipeline.guard import RARELY, THROTTLE, Told, guarded
from cacheinf_ros.pipeline.health import PREPARING, Health, StampGaps, Status, WorkState
from cacheinf_ros.pipeline.log_owner import log_owner, logging_as, owned
from cacheinf_ros.pipeline.map_chain import EMPTY, LATE, UNORDERED, FoldedMap, MapPath, MapUpdate
from cacheinf_ros.pipeline.pairing import FramePairing, LatestQueue, Outcome, Paired
from cacheinf_ros.pipeline.polling import wait_until
from cacheinf_ros.pipeline.silence import Silence
from cacheinf_ros.pipeline.worker import Inbox, Worker

__all__ = [
    "EMPTY", "LATE", "PREPARING", "RARELY", "THROTTLE", "UNORDERED", "Backlog", "FoldedMap", "FramePairing", "Health",
    "Inbox", "LatestQueue", "MapPath", "MapUpdate", "Outcome", "Paired", "Silence", "StampGaps", "Status", "Told",
    "WorkState", "Worker", "guarded", "log_owner", "logging_as", "owned", "wait_until",
]  # fmt: skip

# The parameters that several nodes declare.
__all__ += ["node_configs"]
# Importing this loads the matchers, which replay does without.
__all__ += ["map_producer"]
# Importing these loads the engine and torch, which matcher and replay do without.
__all__ += [
    "box_tracks",
    "cached_model",
    "frame_result",
    "model_pool",
    "result_overlay",
    "runner",
]
