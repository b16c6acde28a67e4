# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Timings and losses of frames, published as numbers at the rate of the frames, for plotting."""

from __future__ import annotations

import math
import re

from rclpy.node import Node

from cacheinf_ros.engine.decisions import Loss
from cacheinf_ros.msg import FrameFigures, InferenceResult
from cacheinf_ros.nodes.topics import profile, publish_on
from cacheinf_ros.pipeline.frame_result import HELD

_DEPTH = 10
_NO_TOKEN = re.compile(r"^(?=\d)|\W", re.ASCII)  # what must not be in a part of a topic's name
_STAGES = ("match", "prepare", "compute", "judge", "decode", "link")


class FigureTopic:
    """The topic ``~/figures``, or ``~/figures/MODEL`` of a node with several models.

    Attributes:
        publisher: tells whether anybody subscribes; without a subscriber nothing needs to be published.
    """

    def __init__(self, node: Node, model: str = "") -> None:
        topic = f"~/figures/{_NO_TOKEN.sub('_', model)}" if model else "~/figures"
        self.publisher = publish_on(node, FrameFigures, topic, profile(_DEPTH))

    def publish(
        self,
        result: InferenceResult,
        latency_ms: float,
        asked: float | None,
        measured: Loss | None,
        joules: float | None = None,
    ) -> None:
        """Publish the numbers of a frame.

        Args:
            result: the frame's result.
            latency_ms: from the arrival of the image to its result.
            asked: the loss that is allowed; None: nothing is promised.
            measured: the loss in the last burst; None: there was none.
            joules: what a frame cost lately; None: not known.
        """
        stage_ms = dict(zip(result.stage_names, result.stage_ms, strict=True))
        self.publisher.publish(
            FrameFigures(
                header=result.header,
                latency_ms=latency_ms,
                total_ms=float(sum(result.stage_ms)),
                **{f"{stage}_ms": float(stage_ms.get(stage, math.nan)) for stage in _STAGES},
                reuse_ratio=result.reuse_ratio,
                active_share=result.active_share,
                energy_j=math.nan if joules is None else joules,
                held=float(result.mode == HELD),
                failed=float(bool(result.error)),
                loss_asked=math.nan if asked is None else asked,
                loss_measured=math.nan if measured is None else measured.whole,
                loss_measured_moving=math.nan if measured is None else measured.moving,
            )
        )
