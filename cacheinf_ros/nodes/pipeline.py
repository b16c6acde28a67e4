# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The way from a frame to its one published result: computed here or by the server, whatever goes wrong on the way."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.energy import PowerModel, Spent
from cacheinf_ros.engine import Decoded, EngineConfig, mode_of_maps
from cacheinf_ros.engine.frame_placement import check_voxels
from cacheinf_ros.mode import Mode
from cacheinf_ros.msg import InferenceResult
from cacheinf_ros.nodes.energy import reported_energy
from cacheinf_ros.nodes.figures import FigureTopic
from cacheinf_ros.nodes.frame_node import FrameNode
from cacheinf_ros.nodes.image_messages import Arrival
from cacheinf_ros.nodes.limited import Sender
from cacheinf_ros.nodes.live_selection import LiveSelection
from cacheinf_ros.nodes.results import (
    ResultTopics,
    decoded_from,
    result_message,
    with_decoded,
    with_wanted_outputs,
)
from cacheinf_ros.nodes.row_sharing import MakeScheduler, RowSharing
from cacheinf_ros.nodes.server_connection import ServerConnection
from cacheinf_ros.nodes.topics import camera_topic
from cacheinf_ros.nodes.whole_frames import WholeFrames
from cacheinf_ros.offload import Identity, OffloadConfig
from cacheinf_ros.offload.planning import Contention, Scheduler, load_planner
from cacheinf_ros.offload_policy import OffloadPolicy
from cacheinf_ros.pipeline import EMPTY, LATE, RARELY, UNORDERED, FoldedMap, Outcome, Paired, guarded
from cacheinf_ros.pipeline.box_tracks import BoxTracks
from cacheinf_ros.pipeline.frame_result import HELD, FrameResult
from cacheinf_ros.pipeline.model_pool import ModelPool
from cacheinf_ros.pipeline.node_configs import (
    AnswerConfig,
    ImageConfig,
    LimitConfig,
    ModelConfig,
    Outputs,
    ResultConfig,
    ServerTopicsConfig,
    UseServerConfig,
)
from cacheinf_ros.pipeline.runner import Runner
from cacheinf_ros.solvers import load_solvers

_COUNTED = {LATE: "map_timeouts", UNORDERED: "unordered"}  # all other reasons count as gaps
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A frame that is ready to run; see :func:`prepare`.

    Attributes:
        image: uint8 [height, width, 3], BGR.
        fold: the part of the cache that is reusable for it, from the maps of its size.
        matching_ms: how long matching it took in this process; None where another process did that.
    """

    image: NDArray[np.uint8]
    fold: FoldedMap
    matching_ms: float | None = None


def prepare(image: NDArray[np.uint8], paired: Paired[Any], matching_ms: float | None = None) -> Prepared:
    """Find out which part of the cache is reusable for a frame."""
    fold = paired.path.folded((image.shape[0], image.shape[1]))
    return Prepared(image=image, fold=fold, matching_ms=matching_ms)


class Pipeline:
    """The inference half of a node.

    The node's worker thread computes frames. The executor's thread makes and closes it; the thread that matches only
    asks whether maps are wanted.
    """

    CONFIGS = (
        ModelConfig, AnswerConfig, ResultConfig, UseServerConfig, ServerTopicsConfig, OffloadConfig, PowerModel,
        LimitConfig,
    )  # fmt: skip
    """The configurations that the node must declare besides the engine's."""

    def __init__(
        self, node: FrameNode, make_scheduler: MakeScheduler = Scheduler, models: ModelPool | None = None
    ) -> None:
        """Load the model; raises :class:`CacheinfError` where that fails.

        Args:
            node: the node that the pipeline is part of.
            make_scheduler: makes what chooses how each frame is divided between robot and server.
            models: shared by the nodes of this process; None: no other node of it runs a model.
        """
        get = node.parameters.get
        if get(AnswerConfig).tracks:
            load_solvers()
        server = get(UseServerConfig)
        if server.use_server and server.offload_policy.divides_frames:
            load_planner()
        self._node = node
        self._make_scheduler = make_scheduler
        models = models or ModelPool()
        self._model = model = models.open(get(ModelConfig))
        check_voxels(get(ImageConfig).voxel_grid, model.card)
        with models.compiling, Contention() as contention:
            self._runner = Runner(
                model,
                get(EngineConfig),
                node.health.note,
                with_server=server.use_server,
                cameras=get(ModelConfig).cameras,
            )
        self._slowdown = contention.slowdown
        self._runner.warm_up()
        self._selection = LiveSelection(node, node.parameters, model.card.labels)
        self._results = ResultTopics(node, get(ResultConfig), model.card)
        node.health.counted("result_subscribers", self._results.subscribers)
        self._figures = FigureTopic(node)
        self._tracks = BoxTracks()
        self._follows = False
        self._connection: ServerConnection | None = None
        self._whole: WholeFrames | None = None
        self._sharing: RowSharing | None = None
        self._energy = reported_energy(node, get(PowerModel), node.health)
        self._spent = Spent()
        self._told_gaps: set[str] = set()
        self._told_unfollowed = False
        self._follow_selection()
        self.computed: FrameResult | None = None
        """The last frame's result, if it was computed here."""

    def connect(self) -> None:
        """Greet the server from now on, if one is to be used; must be called before the first frame."""
        node, get = self._node, self._node.parameters.get
        if self._runner.engine.shared is None:
            return
        self._runner.engine.shared.forget_server()  # forget the server of an earlier session
        connection = self._connection = ServerConnection(
            node, get(ServerTopicsConfig), Sender(node, get(LimitConfig))
        )  # fmt: skip
        offload, identity = get(OffloadConfig), Identity.of(self._model)
        self._whole = WholeFrames(
            node, connection, offload, identity, node.health,
            most_output_bytes=get(ResultConfig).max_output_bytes, is_wanted=lambda: self._policy.sends_frames,
        )  # fmt: skip
        self._sharing = RowSharing(
            node, connection, lambda: get(UseServerConfig), offload, identity, self._runner.engine, node.health,
            slowdown=self._slowdown, make_scheduler=partial(self._make_scheduler, power=get(PowerModel)),
        )  # fmt: skip

    def disconnect(self) -> None:
        """End the session with the server, and forget the frames so far.

        The executor's thread must call it, while no frame is being worked on.
        """
        if self._connection is not None:
            self._connection.close()
        self._connection = self._whole = self._sharing = None
        self._runner.reset()
        self._tracks.forget()

    def answer(self, arrival: Arrival, prepare: Callable[[], Prepared], *, starts_over: bool) -> Outcome:
        """Publish exactly one result for a frame.

        Args:
            arrival: the frame's message.
            prepare: decodes and matches it; what it raises becomes an error result.
            starts_over: whether the stream begins anew with this frame, even if it cannot be prepared.
        """
        self._node.health.count("accepted")
        outcome, prepared, self.computed, self._spent = Outcome.UNTOUCHED, None, None, Spent()
        decoded: Decoded | None = None
        with guarded(f"frame {arrival.stamp_ns}") as failure:
            if starts_over:
                self._runner.reset()  # no answer of before stands, and no burst goes on across the jump
            prepared = prepare()
            outcome = Outcome.LOST
            result, decoded, outcome = self._compute(arrival, prepared)
        if failure:
            if outcome is Outcome.LOST:
                self._runner.reset()  # nobody knows how far the frame came
            result = self._message(arrival, self._runner.failed(failure.reason))
        with guarded(f"what follows frame {arrival.stamp_ns}") as failure:
            self._results.publish(result)
            self._node.health.result(arrival.age_ms, result.reuse_ratio, result.error)
            if self._figures.publisher.get_subscription_count():
                self._publish_figures(result, arrival.age_ms)
            self._account(result.where)
            if prepared is not None:
                size = (prepared.image.shape[0], prepared.image.shape[1])
                decoded = self._followed(decoded, arrival.stamp_ns, size, is_held=result.mode == HELD)
                reused = prepared.fold.cache_map if result.reuse_ratio else None
                self._results.illustrate(result, prepared.image, reused, decoded)
            if outcome is Outcome.CACHED:
                self._energy.add_work(self._runner.audit_if_due(idle=False))
        return self._dropped(failure.reason) if failure else outcome

    def _account(self, where: str) -> None:
        """Add what the last frame took to the node's energy and, where a server is used, to its counts."""
        self._energy.add(time.monotonic(), self._spent)
        if self._sharing is None:
            return
        self._sharing.count(self._spent)
        if self._policy.sends_frames:  # otherwise the shared rows are counted
            self._node.health.count("local_permille", 0 if where == "server" else 1000)

    @property
    def waits_for_server(self) -> bool:
        """Whether a frame may wait for packets from a server."""
        return self._connection is not None

    @property
    def wants_maps(self) -> bool:
        """Whether cache maps are of any use for the next frame."""
        return self._runner.wants_maps

    @property
    def mode_of_maps(self) -> Mode:
        """The mode of which maps are of use for the next frame."""
        return mode_of_maps(self._runner.engine, self._node.parameters.get(EngineConfig).mode)

    @property
    def dense_ms(self) -> float:
        """The time a frame takes without a cache, as measured on this machine, in ms."""
        return self._runner.dense_ms

    def close(self) -> None:
        """End the background work; must be called after :meth:`disconnect`."""
        self._selection.close()
        self._node.health.counted("result_subscribers", lambda: 0)
        self._runner.close()

    def rest(self) -> None:
        """Use the time in which no frame waits for an audit of the promised loss, if one is due."""
        with guarded("audit of the promise") as failure:
            self._energy.add_work(self._runner.audit_if_due(idle=True))
        if failure:
            self._dropped(failure.reason)

    def _publish_figures(self, result: InferenceResult, latency_ms: float) -> None:
        config, promised = self._node.parameters.get(EngineConfig), self._runner.promised
        asked = config.max_loss if config.mode is Mode.BOUNDED else None
        measured = None if asked is None or promised is None else promised.measured
        energy = self._energy.latest
        self._figures.publish(result, latency_ms, asked, measured, None if energy is None else energy.joules)

    def _followed(
        self, decoded: Decoded | None, stamp_ns: int, image_size: tuple[int, int], *, is_held: bool
    ) -> Decoded | None:
        """Number the boxes by the objects that they follow, where the user wants that."""
        if not self._node.parameters.get(AnswerConfig).tracks:
            if self._follows:
                self._tracks.forget()
                self._follows = False
            return decoded
        self._follows = True
        if decoded is None:
            return None
        return replace(decoded, boxes=self._tracks.number(decoded.boxes, stamp_ns, image_size, is_held=is_held))

    def _dropped(self, reason: str) -> Outcome:
        """Drop the cache after a failure outside of inference, as its contents are unknown, and report the failure."""
        self._runner.reset()
        self._node.health.failed(reason)
        return Outcome.LOST

    def _compute(self, arrival: Arrival, prepared: Prepared) -> tuple[InferenceResult, Decoded | None, Outcome]:
        self._follow_selection()
        answer = None
        if self._whole is not None and self._policy.sends_frames:
            answer = self._whole.ask(arrival.stamp_ns, prepared.image)
        if answer is not None:
            answer.header = arrival.header
            self._spent = Spent(transmit_ms=answer.stage_ms[-1])  # "link": sending the image takes most of it
            self._runner.reset(keeps_cache=True)
            if self._sharing is not None:
                self._sharing.passed_over()
            config = self._node.parameters.get(ResultConfig)
            answer = with_wanted_outputs(answer, config, are_told=self._runner.outputs_are_told)
            size = (prepared.image.shape[0], prepared.image.shape[1])
            decoded = self._selection.current.applied(decoded_from(answer), size)
            return with_decoded(answer, decoded), decoded, Outcome.UNTOUCHED
        result = self._run(prepared)
        self.computed = result
        return self._message(arrival, result), result.decoded, result.outcome

    def _run(self, prepared: Prepared) -> FrameResult:
        image, fold = prepared.image, prepared.fold
        self._note_gap(fold.gap)
        sharing = self._sharing if self._sharing is not None and not self._policy.sends_frames else None
        config = self._node.parameters.get(EngineConfig)
        was_dropped = self._runner.configure(config)
        cache_map = None if was_dropped else fold.cache_map
        if cache_map is None:
            self._runner.drop_cache()
        partner = sharing.partner() if sharing else None
        result = self._runner.infer(image, cache_map, partner, matching_ms=prepared.matching_ms or 0.0)
        compute_ms, was_shared = result.engine.stage_ms["compute"], result.engine.where != "local"
        by_engine = result.engine.by_engine and result.mode != HELD
        spent = Spent(compute_ms=compute_ms)
        if sharing is not None:
            spent = sharing.computed(was_shared=was_shared, took_ms=compute_ms, by_engine=by_engine)
        self._note_unfollowed(cache_map, result)
        if prepared.matching_ms is not None:
            result = result.after({"match": prepared.matching_ms})
        beside_ms = sum(result.engine.stage_ms.values()) - compute_ms
        self._spent = replace(spent, compute_ms=spent.compute_ms + beside_ms)
        return result

    def _follow_selection(self) -> None:
        if self._runner.selection != self._selection.current:
            self._runner.selection = self._selection.current
            self._results.select(self._selection.current)

    @property
    def _decoded_only(self) -> bool:
        return self._node.parameters.get(ResultConfig).outputs is Outputs.DECODED

    @property
    def _policy(self) -> OffloadPolicy:
        return self._node.parameters.get(UseServerConfig).offload_policy

    def _note_gap(self, gap: str) -> None:
        if gap in ("", EMPTY):
            return
        self._node.health.count(_COUNTED.get(gap, "gaps"))
        if gap == UNORDERED:
            self._tell_unordered()
        elif gap not in self._told_gaps:
            self._told_gaps.add(gap)
            self._node.get_logger().warning(f"{gap}: nothing is reused (said once, counted in /diagnostics)")

    def _tell_unordered(self) -> None:
        topic = camera_topic(self._node, self._node.parameters.get(ImageConfig))
        _log.warning(
            "stamps of %s do not increase: nothing is reused; is /clock published? (counted in /diagnostics)",
            topic,
            extra=RARELY,
        )

    def _note_unfollowed(self, cache_map: CacheMap | None, result: FrameResult) -> None:
        mode = self._node.parameters.get(EngineConfig).mode
        has_several = self._runner.engine.model.card.pictures > 1
        follows = mode is Mode.DENSE or (mode is Mode.BOUNDED and not has_several)
        if cache_map is None or follows or result.engine.mode is not Mode.DENSE:
            return
        if cache_map.is_empty or cache_map.motion.is_none:
            return
        self._node.health.count("unfollowed")
        if not self._told_unfollowed:
            self._told_unfollowed = True
            remedy = "of several pictures in a frame none is followed" if has_several else "mode bounded follows it"
            self._node.get_logger().warning(
                f"the camera moves in a way that mode {mode.value} cannot follow: nothing is reused of such frames "
                f"(said once, counted in /diagnostics); {remedy}"
            )

    def _message(self, arrival: Arrival, result: FrameResult) -> InferenceResult:
        limit = self._node.parameters.get(ResultConfig).max_output_bytes
        return result_message(arrival.header, result, limit, decoded_only=self._decoded_only)
