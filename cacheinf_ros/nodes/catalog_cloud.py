# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The server as a place for variants: asked, loaded ahead, tried again after it was lost, and paid."""

from __future__ import annotations

from collections.abc import Sequence

from cacheinf_ros.catalog import Catalog, Place
from cacheinf_ros.catalog.scheduling import options_of
from cacheinf_ros.catalog.serving.catalog_service import CloudAnswer
from cacheinf_ros.catalog.serving.device_models import View
from cacheinf_ros.catalog.serving.node_configs import CatalogConfig
from cacheinf_ros.msg import InferenceResult
from cacheinf_ros.nodes.frame_node import FrameNode
from cacheinf_ros.nodes.limited import Sender
from cacheinf_ros.nodes.server_link import ServerLink
from cacheinf_ros.offload import OffloadConfig
from cacheinf_ros.pipeline.node_configs import ServerTopicsConfig

_LINK = "link"  # the stage that is not the server's


class CatalogCloud:
    """Frames for variants on the server, called ``MODEL/VARIANT``."""

    def __init__(self, node: FrameNode, config: CatalogConfig, catalogs: Sequence[Catalog], sender: Sender) -> None:
        """Prepare.

        Args:
            catalogs: of the models; each with a variant that runs in the cloud, or it is never asked for.
        """
        get = node.parameters.get
        self._load_deadline_ms, self._prices = config.load_deadline_ms, config.prices
        self._link = ServerLink(node, get(ServerTopicsConfig), get(OffloadConfig), "", node.health, sender)
        self._tried: dict[str, str] = {}  # by model, the variant that it is tried with
        for catalog in catalogs:
            there = [option for option in options_of(catalog) if option.place is Place.CLOUD]
            if there:
                self._tried[catalog.model] = there[0].variant.name

    @property
    def is_up(self) -> bool:
        """Whether requests are worth sending."""
        return self._link.is_up

    def ask(self, model: str, variant: str, view: View, why: str, *, is_new: bool) -> CloudAnswer[InferenceResult]:
        """Send a frame, and wait for its result.

        Args:
            view: of the frame.
            why: the server was chosen, for the result.
            is_new: whether the server has to load the variant first, for which it is given time.
        """
        self._tried[model] = variant
        before = self._link.bytes_sent
        more_ms = self._load_deadline_ms if is_new else 0.0
        message = self._link.ask(view.header, view.image, model=f"{model}/{variant}", more_ms=more_ms)
        sent = self._link.bytes_sent - before
        if message is None:
            return CloudAnswer(answer=None, money=self._prices.dollars(0.0, sent))
        stages = dict(zip(message.stage_names, message.stage_ms, strict=True))
        link_ms = stages.pop(_LINK)
        money = self._prices.dollars(sum(stages.values()), sent + len(message.data))
        message.header, message.model, message.variant, message.why = view.header, model, variant, why
        return CloudAnswer(answer=message, money=money, link_ms=link_ms)

    def probe(self, model: str, view: View) -> float:
        """Try a server that was lost with a frame, if it is time to, without waiting. Returns dollars to be paid.

        What the server does with it is not known, and not paid for.
        """
        if model not in self._tried or not self._link.complaint:
            return 0.0
        before = self._link.bytes_sent
        self._link.ask(view.header, view.image, model=f"{model}/{self._tried[model]}")
        return self._prices.dollars(0.0, self._link.bytes_sent - before)
