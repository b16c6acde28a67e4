# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The server node: computes its part of frames that robots share with it, and whole frames that they send.

It has a separate cache for each robot. With a fleet it is a gateway: rows are computed on any machine that has room.
"""

from __future__ import annotations

from collections.abc import Sequence

from cacheinf_ros.catalog import CatalogFolder, prepare_catalogs
from cacheinf_ros.catalog.serving import CatalogServerConfig, SplitModels
from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.fast_dds import free_message_buffers
from cacheinf_ros.fleet.gateway import FleetGateway
from cacheinf_ros.fleet.host import HostSetting
from cacheinf_ros.heap import share_pools
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.nodes.frame_node import FrameNode, run_node
from cacheinf_ros.nodes.limited import Sender
from cacheinf_ros.nodes.live_catalogs import LiveCatalogs
from cacheinf_ros.nodes.robot_sessions import RobotSessions
from cacheinf_ros.nodes.whole_frame_models import WholeFrameModels
from cacheinf_ros.offload import Identity
from cacheinf_ros.pipeline import WorkState
from cacheinf_ros.pipeline.node_configs import (
    LimitConfig,
    ModelConfig,
    OutputLimitConfig,
    ServerConfig,
    ServerTopicsConfig,
)
from cacheinf_ros.pipeline.runner import open_model


class ServerNode(FrameNode):
    """Answers robots; each session has a thread of its own, in which the robot's latest frame wins."""

    def __init__(self) -> None:
        super().__init__(
            "server", MatchingConfig, EngineConfig, ModelConfig, OutputLimitConfig, ServerTopicsConfig, ServerConfig,
            CatalogServerConfig, LimitConfig,
        )  # fmt: skip
        self._whole: WholeFrameModels | None = None
        self._sessions: RobotSessions | None = None

    def configure(self) -> None:
        """Load the model, and prepare the catalogs."""
        get = self.parameters.get
        catalogs = get(CatalogServerConfig)
        folders = catalogs.read()
        models = self._models = SplitModels(open_model(get(ModelConfig)), folders)
        prepare_catalogs(folders, self.get_logger().info, self.get_logger().error)
        self._live_catalogs = LiveCatalogs(self, CatalogServerConfig, self._offer)
        self._whole = WholeFrameModels(models, catalogs.catalog_memory_mb * 1e6, self.parameters, self.health)

    def activate(self) -> None:
        """Begin to serve robots."""
        assert self._whole is not None
        sender = self._sender = Sender(self, self.parameters.get(LimitConfig))
        self._gateway = self._join(self._models) if self.parameters.get(ServerConfig).fleet else None
        self._sessions = RobotSessions(
            self, self._models, self._whole, self.parameters, self.health, sender, self._gateway
        )
        self._begun()

    def deactivate(self) -> None:
        """Finish the frames being worked on, and end all sessions: robots compute alone, and greet the server again."""
        assert self._whole is not None
        assert self._sessions is not None
        self._sessions.close(self._patience_s)
        self._whole.close()
        self._sender.close()
        self._sessions = None
        if self._gateway is not None:
            self._gateway.close()
            self._gateway = None

    def clean_up(self) -> None:
        """Free the models."""
        self._live_catalogs.close()
        self._whole = None
        del self._models

    def _offer(self, folders: Sequence[CatalogFolder]) -> bool:
        """Let robots ask for these catalogs' variants from now on; existing sessions go on."""
        self._models.offer(folders)
        return True

    def work_state(self) -> WorkState:
        """Return the state of the sessions' threads."""
        of_rows = 0.0 if self._sessions is None else self._sessions.busy_s
        return WorkState(busy_s=max(of_rows, 0.0 if self._whole is None else self._whole.busy_s))

    def _join(self, models: SplitModels) -> FleetGateway:
        """Become a gateway of the fleet."""
        from cacheinf_ros.fleet.ray_cluster import RayCluster

        get = self.parameters.get

        def setting(asked: Identity) -> HostSetting:
            return HostSetting(
                asked=asked, model=get(ModelConfig), catalogs=get(CatalogServerConfig), engine=get(EngineConfig)
            )

        cluster = RayCluster(get(ServerConfig).fleet)
        gateway = FleetGateway(cluster, models, setting, self.health.complained)
        self.get_logger().info(f"{gateway.name} of the fleet at {get(ServerConfig).fleet}")
        self.health.note("gateway", gateway.name)
        return gateway


_POOLS = 2  # each session compiles in a thread of its own, and freed memory of its engine stays in that thread's pool


def main() -> int:
    """Run the node."""
    share_pools(_POOLS)
    return run_node("server", ServerNode, set_up=free_message_buffers)
