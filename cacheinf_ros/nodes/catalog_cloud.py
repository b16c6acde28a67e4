# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The server as a place where variants run: requests, loading ahead, retries after it was lost, and what it costs."""

from __future__ import annotations

from collections.abc import Iterable

from cacheinf_ros.catalog import CatalogFolder
from cacheinf_ros.catalog.serving import CatalogBudgetConfig, CatalogConfig, identity_of_variant
from cacheinf_ros.catalog.serving.catalog_service import CloudAnswer
from cacheinf_ros.catalog.serving.device_models import View
from cacheinf_ros.msg import InferenceResult
from cacheinf_ros.nodes.frame_node import FrameNode
from cacheinf_ros.nodes.results import without_outputs
from cacheinf_ros.nodes.server_connection import ServerConnection
from cacheinf_ros.nodes.whole_frames import WholeFrames
from cacheinf_ros.offload import OffloadConfig
from cacheinf_ros.pipeline.node_configs import ResultConfig

_LINK = "link"  # the stage that is spent on the link, not on the server


class CatalogCloud:
    """Has frames computed by variants on the server, with one session per model, for the variant asked last."""

    def __init__(self, node: FrameNode, folders: Iterable[CatalogFolder], connection: ServerConnection) -> None:
        """Prepare; ``folders`` are the catalogs of the models."""
        self._node = node
        self._connection = connection
        self._load_deadline_ms = node.parameters.get(CatalogConfig).load_deadline_ms
        self._prices = node.parameters.get(CatalogBudgetConfig).prices
        self._folders = {folder.file.name: folder for folder in folders}
        self._asked: dict[str, tuple[str, WholeFrames]] = {}  # by model: the variant and its session

    def is_up(self, model: str) -> bool:
        """Tell whether requests for a model are worth sending."""
        asked = self._asked.get(model)
        return self._connection.has_server and (asked is None or not asked[1].complaint)

    def ask(self, model: str, variant: str, view: View, why: str, *, is_new: bool) -> CloudAnswer[InferenceResult]:
        """Send a frame to a variant on the server, and wait for its result.

        Args:
            view: the frame.
            why: the reason for choosing the server, for the result.
            is_new: whether the server has to load the variant first; if so, it gets extra time.
        """
        frames, is_new = self._frames_for(model, variant, is_new=is_new)
        before = frames.bytes_sent
        message = frames.ask(view.stamp_ns, view.image, more_ms=self._load_deadline_ms if is_new else 0.0)
        sent = frames.bytes_sent - before
        if message is None:
            return CloudAnswer(answer=None, money=self._prices.dollars(0.0, sent))
        stages = dict(zip(message.stage_names, message.stage_ms, strict=True))
        link_ms = stages.pop(_LINK)
        money = self._prices.dollars(sum(stages.values()), sent + len(message.data))
        if len(message.data) > self._node.parameters.get(ResultConfig).max_output_bytes:
            message = without_outputs(message)
        message.header, message.model, message.variant, message.why = view.header, model, variant, why
        return CloudAnswer(answer=message, money=money, link_ms=link_ms)

    def close(self) -> None:
        """End all sessions: nothing more is asked of the server."""
        for _, frames in self._asked.values():
            frames.close()
        self._asked.clear()

    def probe(self, model: str, view: View) -> float:
        """Send a frame, without waiting, to a server that was late, if it is time to try it again.

        What the server does with the frame is not known, and not paid for.

        Returns:
            what the bytes that were sent cost, in dollars.
        """
        if model not in self._asked or not self._asked[model][1].complaint:
            return 0.0
        frames = self._asked[model][1]
        before = frames.bytes_sent
        frames.ask(view.stamp_ns, view.image)
        return self._prices.dollars(0.0, frames.bytes_sent - before)

    def _frames_for(self, model: str, variant: str, *, is_new: bool) -> tuple[WholeFrames, bool]:
        """Return the session for a variant, and whether the server has to load the variant first."""
        asked = self._asked.get(model)
        if asked is not None and asked[0] == variant:
            return asked[1], is_new
        if asked is not None:
            asked[1].close()
        node, identity = self._node, identity_of_variant(self._folders[model], variant)
        frames = WholeFrames(
            node, self._connection, node.parameters.get(OffloadConfig), identity, node.health,
            most_output_bytes=node.parameters.get(ResultConfig).max_output_bytes, prefix=f"{model}, whole frames: ",
        )  # fmt: skip
        self._asked[model] = variant, frames
        return frames, True
