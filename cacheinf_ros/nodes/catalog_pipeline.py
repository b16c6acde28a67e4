# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The way from a request to its one published result; a :class:`CatalogService` serves the request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rclpy.clock import Clock, ClockType
from std_msgs.msg import Header

from cacheinf_ros.catalog import CatalogFolder, Place, prepare_catalogs
from cacheinf_ros.catalog.serving import (
    Announcer,
    Asked,
    BudgetReport,
    CatalogBudgetConfig,
    CatalogConfig,
    CatalogsInUse,
)
from cacheinf_ros.catalog.serving.catalog_service import CatalogService
from cacheinf_ros.catalog.serving.device_models import DeviceModels, View
from cacheinf_ros.catalog.serving.serving_places import Places
from cacheinf_ros.energy import PowerModel, RequestEnergy
from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.engine.quantisation import computes_int8
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.mode import Mode
from cacheinf_ros.msg import InferenceResult
from cacheinf_ros.nodes.catalog_cloud import CatalogCloud
from cacheinf_ros.nodes.catalog_split import CatalogSplit
from cacheinf_ros.nodes.class_reports import ClassReports
from cacheinf_ros.nodes.energy import announced_meter
from cacheinf_ros.nodes.figures import FigureTopic
from cacheinf_ros.nodes.frame_node import FrameNode
from cacheinf_ros.nodes.image_messages import Arrival, ImageReader
from cacheinf_ros.nodes.limited import Sender
from cacheinf_ros.nodes.results import result_message
from cacheinf_ros.nodes.server_connection import ServerConnection
from cacheinf_ros.nodes.topics import profile, publish_on
from cacheinf_ros.offload import OffloadConfig
from cacheinf_ros.pipeline import guarded
from cacheinf_ros.pipeline.frame_result import FrameResult
from cacheinf_ros.pipeline.node_configs import (
    ImageConfig,
    LimitConfig,
    Outputs,
    ResultConfig,
    ServerTopicsConfig,
    SharingConfig,
)

_RESULT_DEPTH = 100  # results of all models together
_PERIOD_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Served:
    """What serves the models of some catalogs.

    Attributes:
        configs: the node's configurations, with these catalogs.
        device, cloud: the places of variants; no server: ``cloud`` is None.
        service: decides about requests.
    """

    configs: CatalogsInUse
    device: DeviceModels
    cloud: CatalogCloud | None
    service: CatalogService[InferenceResult]


class CatalogPipeline:
    """The inference half of the node.

    The node's worker thread answers requests; the executor's thread makes, changes and closes it while none is served.

    Attributes:
        models: the names of the models, in the order of the parameter ``catalogs``.
    """

    CONFIGS = (
        MatchingConfig, EngineConfig, ResultConfig, ServerTopicsConfig, SharingConfig, OffloadConfig, PowerModel,
        LimitConfig, CatalogBudgetConfig,
    )  # fmt: skip
    """The configurations that the node must declare besides :class:`CatalogConfig` and :class:`ImageConfig`."""

    def __init__(self, node: FrameNode) -> None:
        """Read the catalogs; raises :class:`CacheinfError` where that fails, or no variant of a model may run."""
        get, log = node.parameters.get, node.get_logger()
        self._node = node
        if get(ImageConfig).voxels:
            raise ConfigError(
                "voxels: variants of a catalog may take smaller frames; run the model by cached_inference"
            )
        config = get(CatalogConfig)
        folders = config.read(int8=computes_int8(get(EngineConfig).device))
        config.demands(folders)  # before anything is prepared, so that a mistake is reported at once
        if config.loads_variants:
            prepare_catalogs(folders, log.info, log.error)
        self._connection: ServerConnection | None = None
        if Place.CLOUD in config.places or Place.SPLIT in config.places:
            self._connection = ServerConnection(node, get(ServerTopicsConfig), Sender(node, get(LimitConfig)))
        self._reports = ClassReports(node, node.health) if config.specialise_together else None
        self._energy = RequestEnergy(get(PowerModel), announced_meter(node, "energy of requests"), node.health.note)
        self._report = BudgetReport(node.health)
        self._results = publish_on(node, InferenceResult, get(ResultConfig).result_topic, profile(_RESULT_DEPTH))
        node.health.counted("result_subscribers", self._results.get_subscription_count)
        self._figures: dict[str, FigureTopic] = {}
        self._reader = ImageReader(get(ImageConfig), node.health)
        self._view: tuple[Arrival, View] | None = None
        self._used_bytes = 0
        self._serve(self._made(folders))
        self._timer = node.create_timer(_PERIOD_S, self._tell, clock=Clock(clock_type=ClockType.STEADY_TIME))

    @property
    def rates_hz(self) -> Sequence[float]:
        """The rate in Hz at which each model is to be asked at present."""
        return self._served.configs.get(CatalogConfig).rates_hz

    def register(self, folders: Sequence[CatalogFolder]) -> None:
        """Serve the models of the catalogs that the parameters name now, with what is left of the budget.

        Must be called while no request is being served. No variant is loaded when it returns.

        Args:
            folders: the catalogs that the parameters name, prepared.

        Raises:
            CacheinfError: no variant of a model may run; then the former models are still served.
        """
        before = self._served
        served = self._made(folders, before=before.service)
        before.device.drop_all()
        if before.cloud is not None:
            before.cloud.close()
        self._serve(served)

    def computed_with(self, model: str) -> tuple[str, ...]:
        """Return the names of the models computed together with this one; must be called in the worker's thread."""
        return self._served.device.computed_with(model)

    def answer(self, asked: Asked[Arrival]) -> None:
        """Publish exactly one result for a request."""
        self._node.health.count("accepted")
        arrival, service = asked.frame, self._served.service
        with guarded(asked.model) as failure:
            service.follow_parameters()
            message = service.serve(asked.model, self._seen(arrival))
        if failure:
            message = self._nothing(asked.model, arrival, failure.reason)
        self._results.publish(message)
        self._node.health.result(arrival.age_ms, message.reuse_ratio, message.error, asked.model)
        if self._figures[asked.model].publisher.get_subscription_count():
            self._publish_figures(asked.model, message, arrival.age_ms)
        self._report.answered(asked.model, variant=message.variant, where=message.where, error=message.error)
        self._used_bytes = service.used_bytes

    def rest(self) -> None:
        """Use the time in which no request waits to load better variants."""
        with guarded("loading"):
            self._served.service.improve()

    def forget(self) -> None:
        """Have the next frame computed completely; must be called while no request is being served."""
        self._served.device.forget()
        self._view = None

    def close(self) -> None:
        """End the sessions with the server and the background work; must be called while no request is being served.

        The executor's thread must call it, before the node's publishers are destroyed.
        """
        self._node.health.counted("result_subscribers", lambda: 0)
        self._served.device.drop_all()
        if self._reports is not None:
            self._reports.close()
        if self._connection is not None:
            self._connection.close()
        self._report.close()

    def _made(
        self, folders: Sequence[CatalogFolder], *, before: CatalogService[InferenceResult] | None = None
    ) -> _Served:
        """Make what serves the catalogs that the parameters name now; nothing changes before :meth:`_serve`.

        Raises:
            CacheinfError: no variant of a model may run.
        """
        node, configs = self._node, CatalogsInUse(self._node.parameters)
        config = configs.get(CatalogConfig)
        demands = config.demands(folders)
        catalogs = [demand.catalog for demand in demands]
        connection, split, cloud = self._connection, None, None
        if connection and any(Place.SPLIT in v.costs for catalog in catalogs for v in catalog.variants):
            split = CatalogSplit(node, catalogs, connection)
        if connection and Place.CLOUD in config.places:
            cloud = CatalogCloud(node, folders, connection)
        announcer = Announcer(node.health.note, node.get_logger().info)
        others = None if self._reports is None else self._reports.others
        device = DeviceModels(folders, configs, announcer, split, others=others)
        service: CatalogService[InferenceResult] = CatalogService(
            demands,
            configs,
            Places(
                device=device,
                split=split,
                cloud=cloud,
                server_load=None if connection is None else lambda: connection.server_load,
            ),
            self._energy,
            announcer,
            lambda view, result: self._message(view.header, result),
            before=before,
        )
        return _Served(configs=configs, device=device, cloud=cloud, service=service)

    def _serve(self, served: _Served) -> None:
        """Serve these models from now on."""
        node = self._node
        self._served = served
        self.models: Sequence[str] = served.service.models
        self._report.follow(self.models)
        if self._reports is not None:
            self._reports.follow(frozenset(served.device.weights.values()))
        for gone in set(self._figures) - set(self.models):
            node.destroy_publisher(self._figures.pop(gone).publisher)
        for model in self.models:
            if model not in self._figures:
                self._figures[model] = FigureTopic(node, model)

    def _publish_figures(self, model: str, message: InferenceResult, latency_ms: float) -> None:
        config = self._node.parameters.get(EngineConfig)
        if config.mode is Mode.BOUNDED and message.where != "server":
            self._figures[model].publish(message, latency_ms, config.max_loss, self._served.device.measured_loss(model))
        else:
            self._figures[model].publish(message, latency_ms, None, None)

    def _seen(self, arrival: Arrival) -> View:
        """Return the image, decoded once for all models."""
        if self._view is None or self._view[0] is not arrival:
            view = View(image=self._reader.read(arrival.message), stamp_ns=arrival.stamp_ns, header=arrival.header)
            self._view = arrival, view
        return self._view[1]

    def _tell(self) -> None:
        """Report what is left of the budget, even while no image comes; the executor's timer calls this."""
        served = self._served
        self._report.left(served.service.account, served.service.left_s, self._used_bytes)
        if self._reports is not None:
            for weights, counts in served.device.news().items():
                self._reports.tell(weights, counts)

    def _nothing(self, model: str, arrival: Arrival, error: str) -> InferenceResult:
        mode = self._node.parameters.get(EngineConfig).mode
        return self._message(arrival.header, FrameResult.failed(model, mode, error, where=""))

    def _message(self, header: Header, result: FrameResult) -> InferenceResult:
        config = self._node.parameters.get(ResultConfig)
        decoded_only = config.outputs is Outputs.DECODED
        return result_message(header, result, config.max_output_bytes, decoded_only=decoded_only)
