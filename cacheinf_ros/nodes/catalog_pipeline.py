# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""From a request to its one published result: by which variant, on the device or by the server, or refused."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from dataclasses import replace

from rclpy.clock import Clock, ClockType

from cacheinf_ros.catalog.scheduling.cost_correction import CostCorrection
from cacheinf_ros.catalog.scheduling.decision import Decision, Load, Why
from cacheinf_ros.catalog.scheduling.scheduler import Scheduler
from cacheinf_ros.catalog.serving.node_configs import CatalogConfig
from cacheinf_ros.catalog.serving.request_queue import Asked
from cacheinf_ros.catalog.specialists.specialiser import SpecialiseConfig
from cacheinf_ros.catalog.variant import Place
from cacheinf_ros.energy.power_model import PowerModel, Spent
from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.errors import CacheinfError
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.msg import InferenceResult
from cacheinf_ros.nodes.arrival import Arrival
from cacheinf_ros.nodes.catalog_cloud import CatalogCloud
from cacheinf_ros.nodes.catalog_device import DeviceModels, View
from cacheinf_ros.nodes.catalog_energy import Reading, RequestEnergy
from cacheinf_ros.nodes.catalog_preparing import prepare_catalogs
from cacheinf_ros.nodes.catalog_report import CatalogReport
from cacheinf_ros.nodes.catalog_split import CatalogSplit
from cacheinf_ros.nodes.conversions import image_from
from cacheinf_ros.nodes.frame_node import FrameNode
from cacheinf_ros.nodes.limited import Sender
from cacheinf_ros.nodes.result_messages import result_message
from cacheinf_ros.nodes.server_connection import ServerConnection
from cacheinf_ros.nodes.topics import profile, publish_on
from cacheinf_ros.offload import OffloadConfig
from cacheinf_ros.pipeline.frame_result import FrameResult
from cacheinf_ros.pipeline.node_configs import LimitConfig, Outputs, ResultConfig, ServerTopicsConfig, SharingConfig

_RESULT_DEPTH = 100  # of all models together
_PERIOD_S = 1.0
_LOST = "; the server had been chosen, but did not answer"


class CatalogPipeline:
    """The scheduler's hands; used by the node's worker thread only.

    Attributes:
        models: their names, in the order of the parameter ``catalogs``.
    """

    CONFIGS = (
        MatchingConfig, EngineConfig, ResultConfig, ServerTopicsConfig, SharingConfig, OffloadConfig, PowerModel,
        LimitConfig, SpecialiseConfig,
    )  # fmt: skip
    """What the node must declare beside :class:`CatalogConfig`."""

    def __init__(self, node: FrameNode) -> None:
        """Read the catalogs; :class:`CacheinfError` where that cannot be done, or no variant of a model may run."""
        config = node.parameters.get(CatalogConfig)
        self._node = node
        self._folders = config.read()
        self._demands = config.demands(self._folders)
        self.models: Sequence[str] = tuple(demand.catalog.model for demand in self._demands)
        catalogs = [demand.catalog for demand in self._demands]
        if Place.DEVICE in config.places or Place.SPLIT in config.places:
            prepare_catalogs(node, self._folders)
        self._connection = self._split = None
        if Place.CLOUD in config.places or Place.SPLIT in config.places:
            sender = Sender(node, node.parameters.get(LimitConfig))
            self._connection = ServerConnection(node, node.parameters.get(ServerTopicsConfig), sender)
        if self._connection and any(Place.SPLIT in v.costs for catalog in catalogs for v in catalog.variants):
            self._split = CatalogSplit(node, config, catalogs, self._connection)
        self._device = DeviceModels(
            self._folders, node.parameters, node.health.note, node.get_logger().info, self._split
        )
        self._cloud = None
        if self._connection and Place.CLOUD in config.places:
            self._cloud = CatalogCloud(node, config, self._folders, self._connection)
        self._energy = RequestEnergy(node, node.parameters.get(PowerModel), node.health)
        self._report = CatalogReport(node.health, self.models)
        self._results = publish_on(
            node, InferenceResult, node.parameters.get(ResultConfig).result_topic, profile(_RESULT_DEPTH)
        )
        self._view: tuple[Arrival, View] | None = None
        self._hits: dict[str, None] = {}  # models that were served from the cache since there was time, in order
        self._loaded_as: dict[str, Why] = {}
        self._experience = CostCorrection()  # it outlives a budget
        self._config, self._scheduler = config, self._begin(config)
        self._timer = node.create_timer(_PERIOD_S, self._tell, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def computed_with(self, model: str) -> tuple[str, ...]:
        """The models that are computed with this one; to be asked in the worker's thread."""
        return self._device.computed_with(model)

    def answer(self, asked: Asked[Arrival]) -> None:
        """Publish exactly one result for a request."""
        self._node.health.count("accepted")
        arrival = asked.frame
        try:
            self._follow_parameters()
            message = self._serve(asked.model, arrival)
        except CacheinfError as error:
            message = self._nothing(asked.model, arrival, str(error))
            self._node.get_logger().error(f"{asked.model}: {error}", throttle_duration_sec=5.0)
        except Exception as error:  # a bug must not silence the node
            internal = f"internal error, see the node's log: {type(error).__name__}: {error}"
            message = self._nothing(asked.model, arrival, internal)
            self._node.get_logger().error(traceback.format_exc())
        self._results.publish(message)
        self._node.health.result(arrival.age_ms, message.reuse_ratio, message.error)
        self._report.answered(message)
        self._used_bytes = self._scheduler.used_bytes

    def rest(self) -> None:
        """Use the time in which no request waits: load what serves better, as the scheduler proposes after hits."""
        try:
            if self._hits:
                model = next(iter(self._hits))
                del self._hits[model]
                self._update(model)
                self._device.audit(model, idle=True)
        except CacheinfError as error:
            self._node.get_logger().error(f"loading: {error}", throttle_duration_sec=5.0)
        except Exception:  # a bug must not end the worker
            self._node.get_logger().error(traceback.format_exc())

    def close(self) -> None:
        """End the sessions with a server and what runs in the background; when the node does not spin any more."""
        self._device.drop_all()
        if self._connection is not None:
            self._connection.close()

    def _is_connected(self, model: str) -> bool:
        is_lost = self._split is not None and self._split.is_lost(model)
        return self._cloud is not None and self._cloud.is_up(model) and not is_lost

    def _begin(self, config: CatalogConfig) -> Scheduler:
        start_s = time.monotonic()
        self._ends_s = start_s + config.budget_horizon_s
        self._used_bytes = 0
        return Scheduler(
            self._demands,
            config.budget,
            round(config.device_memory_mb * 1e6),
            start_s=start_s,
            preference=config.policy.preference,
            experience=self._experience,
        )

    def _follow_parameters(self) -> None:
        """A new budget holds from now on, with nothing loaded: the scheduler that knew what is loaded is gone."""
        config, old = self._node.parameters.get(CatalogConfig), self._config
        self._config = config
        if config.rates_hz != old.rates_hz:
            self._device.regroup()
        if config.budget != old.budget:
            self._device.drop_all()
            self._hits.clear()
            self._scheduler = self._begin(config)
            self._node.get_logger().info(f"the budget begins anew: {config.budget}")

    def _serve(self, model: str, arrival: Arrival) -> InferenceResult:
        view = self._seen(arrival)
        decision = self._choose(model, connected=self._is_connected(model))
        why = self._why(decision)
        if decision.place is Place.CLOUD:
            assert decision.variant is not None
            is_new = decision.load is not None
            message = self._ask(model, decision.variant.name, arrival, view, is_new=is_new)
            if message is not None:
                message.why = why
                return message
            decision = self._choose(model, connected=False)
            why = self._why(decision) + _LOST
        if decision.variant is None:
            message = self._nothing(model, arrival, decision.why.value, why)
        else:
            message = self._here(decision, arrival, view, why)
        if self._cloud is not None and self._scheduler.account.money > 0:
            self._scheduler.spend(0.0, self._cloud.probe(model, view.stamp_ns, view.image))
        return message

    def _seen(self, arrival: Arrival) -> View:
        """The image, decoded once for all models."""
        if self._view is None or self._view[0] is not arrival:
            self._view = arrival, View(image=image_from(arrival.message), stamp_ns=arrival.stamp_ns)
        return self._view[1]

    def _choose(self, model: str, *, connected: bool) -> Decision:
        decision = self._scheduler.choose(model, time.monotonic(), connected=connected)
        if decision.load is not None:
            self._make_room(decision.load)
        elif decision.option is not None:
            self._hits[model] = None
        return decision

    def _make_room(self, load: Load) -> None:
        for other in load.evicts:
            self._device.drop(other)
        if self._split is not None:
            capacity = round(self._config.device_memory_mb * 1e6)
            for other in self._split.in_the_way(load, capacity - self._scheduler.used_bytes):
                self._device.drop(other)
        if load.place is Place.CLOUD:
            self._device.drop(load.model)
        self._loaded_as[load.model] = load.why

    def _why(self, decision: Decision) -> str:
        before = self._loaded_as.get(decision.model)
        if decision.why is not Why.IN_CACHE or before is None:
            return decision.why.value
        return f"{decision.why.value}; loaded as {before.value}"

    def _here(self, decision: Decision, arrival: Arrival, view: View, why: str) -> InferenceResult:
        option = decision.option
        assert option is not None
        begun, started = self._energy.begin(), time.perf_counter()
        try:
            was_loaded = self._device.load(decision.model, option.variant.name, option.place)
            load_ms = _ms_since(started)
            if was_loaded or decision.load is not None:  # only then: a meter is read from files
                load_j = self._spend_computing(begun, started)
                begun, started = self._energy.begin(), time.perf_counter()
                if decision.load is not None:
                    self._experience.loaded(decision.model, option, load_j)
            result = self._device.run(decision.model, view)
            stages = {"load": load_ms, **result.stage_ms} if decision.load else result.stage_ms
            message = self._message(arrival, replace(result, why=why + result.why, stage_ms=stages))
            self._device.audit(decision.model, idle=False)  # now: it may overwrite the outputs
        finally:  # also what fails takes energy
            run_j = self._spend_computing(begun, started)
        self._experience.executed(decision.model, option, run_j)
        return message

    def _ask(self, model: str, variant: str, arrival: Arrival, view: View, *, is_new: bool) -> InferenceResult | None:
        """The server's answer, which is paid for; None: it gave none, which is paid for as far as is known."""
        assert self._cloud is not None
        begun, started = self._energy.begin(), time.perf_counter()
        answer = self._cloud.ask(model, variant, arrival.header, view.image, is_new=is_new)
        spent = Spent(transmit_ms=answer.link_ms)
        self._scheduler.spend(self._energy.end(begun, _ms_since(started), spent), answer.money)
        return answer.message

    def _update(self, model: str) -> None:
        now_s = time.monotonic()
        load = self._scheduler.update(model, now_s, connected=self._is_connected(model))
        if load is None or self._view is None:
            return
        if load.place is Place.CLOUD:
            arrival, view = self._view
            if self._ask(model, load.variant.name, arrival, view, is_new=True) is None:
                return  # what the device has is still there
        self._scheduler.apply(load, now_s)
        self._make_room(load)
        if load.place is not Place.CLOUD:
            begun, started = self._energy.begin(), time.perf_counter()
            self._device.load(model, load.variant.name, load.place)
            self._experience.loaded(model, load.option, self._spend_computing(begun, started))

    def _spend_computing(self, begun: Reading, started: float) -> float:
        """What the device did since then took all its time, but for what it waited for its part of a split frame; J."""
        took_ms = _ms_since(started)
        spent, money = self._split.outlay.take(took_ms) if self._split else (Spent(compute_ms=took_ms), 0.0)
        energy_j = self._energy.end(begun, took_ms, spent)
        self._scheduler.spend(energy_j, money)
        return energy_j

    def _tell(self) -> None:
        """Called by a timer in another thread: what is left is told also while no image comes."""
        self._report.left(self._scheduler.account, self._ends_s - time.monotonic(), self._used_bytes)

    def _nothing(self, model: str, arrival: Arrival, error: str, why: str = "") -> InferenceResult:
        mode = self._node.parameters.get(EngineConfig).mode.value
        return self._message(arrival, FrameResult(model=model, mode=mode, where="", error=error, why=why))

    def _message(self, arrival: Arrival, result: FrameResult) -> InferenceResult:
        config = self._node.parameters.get(ResultConfig)
        decoded_only = config.outputs is Outputs.DECODED
        return result_message(arrival.header, result, config.max_output_bytes, decoded_only=decoded_only)


def _ms_since(started: float) -> float:
    return 1e3 * (time.perf_counter() - started)
