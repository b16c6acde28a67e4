# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What ``cacheinf bench stream`` is to measure: modes and promises of this package, dense engines, skips, a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cacheinf_ros.bench.alternatives import SKIPS
from cacheinf_ros.bench.contenders import AnyContender, Contender, contenders_on, is_gpu
from cacheinf_ros.bench.own_way import OwnSettings
from cacheinf_ros.bench.server_way import ServerLink
from cacheinf_ros.engine import EngineConfig

BOUNDED = "bounded"
"""The name of bounded mode among the ways."""
ENGINES = (
    Contender.ONNXRUNTIME,
    Contender.OPENVINO,
    *(contender for contender in Contender if contender.precision.loses),
)
"""The dense engines in the comparison on a CPU: those that users would take, and all of lower precision."""


def engines_on(device: str) -> tuple[AnyContender, ...]:
    """Return the dense engines to compare with on a device: on a GPU all that use it."""
    return contenders_on(device) if is_gpu(device) else ENGINES


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPlan:
    """What is to be measured.

    Attributes:
        own: modes and promises of this package, by name; one of them is :data:`BOUNDED`, in bounded mode, whose promise
            the others are held to.
        frames: how many frames are counted, at most.
        warm_up: how many frames come before those, from which bounded mode learns what it may hold.
        fps: the camera's rate, frames per second.
        truth_class: the class of objects without a label, see :class:`cacheinf_ros.bench.truth_score.TruthClasses`.
        contenders: dense engines to compare with; torch is added where none in float32 is installed.
        is_brief: whether after the warm-up only the fastest engine of each precision goes on, and one of lower
            precision only if it is faster than float32.
        skips: the skips, each a way: one of so many frames is computed.
        server: a server that computes whole frames as a further way, :data:`SERVER`; None: there is none.
        at_rate: whether the ways are also judged as they arrive at the camera's rate, for which this package's modes
            run once more where they are slower than that.
        keep_in: a folder for the answers of dense engines, so that an interrupted measurement can continue.
    """

    own: Mapping[str, OwnSettings]
    frames: int
    warm_up: int
    fps: float = 30.0
    truth_class: str = ""
    contenders: Sequence[AnyContender] = ENGINES
    is_brief: bool = False
    skips: Sequence[int] = SKIPS
    server: ServerLink | None = None
    at_rate: bool = True
    keep_in: Path | None = None

    @property
    def config(self) -> EngineConfig:
        """The configuration of bounded mode."""
        return self.own[BOUNDED].config

    @property
    def period_ms(self) -> float:
        """The milliseconds between two frames of the camera."""
        return 1e3 / self.fps
