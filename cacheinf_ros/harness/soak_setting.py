# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The commands of a soak test's nodes, the pictures that cameras show, and the right answers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.config import Value
from cacheinf_ros.engine import Engine, EngineConfig
from cacheinf_ros.graph import load_model
from cacheinf_ros.harness.processes import NodeCommand
from cacheinf_ros.harness.soak_report import SoakConfig
from cacheinf_ros.matching import IDENTICAL
from cacheinf_ros.mode import Mode
from cacheinf_ros.nodes.conversions import encode
from cacheinf_ros.nodes.packet_relay import SERVER as RELAYED
from cacheinf_ros.offload import Identity, OffloadConfig, WireImage
from cacheinf_ros.offload_policy import OffloadPolicy
from cacheinf_ros.sources import decode_picture, open_source

SHARE_TOPIC, ANSWER_TOPIC = "/frame_shares", "/frame_shared"
ALL_POLICIES = "all"
"""The value in place of a policy with which the robots get all policies in turn."""
_PICTURES = 16
_LOSSLESS = 1000  # queue size of a node, with which no frame is lost
_DEADLINE_MS = 1000.0  # the cost of a server that is gone, for one frame; long, as many processes share a few cores
_TOLERANCE = 1e-4  # of the largest value of an output: sums may be in another order
_ENGINE: dict[str, Value] = {"mode": Mode.EXACT.value, "threads": 1, "outputs": "all", "max_output_bytes": 2**30}
_MATCHING: dict[str, Value] = {"threshold": IDENTICAL}
_CAMERA: dict[str, Value] = {"image_topic": "camera/image", "image_reliability": "reliable", "queue_size": _LOSSLESS}
_POLICIES = tuple(OffloadPolicy)
Outputs = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The pictures that all cameras show, and the answers of dense execution to each.

    Attributes:
        pictures: uint8 [height, width, 3], BGR.
        right: the outputs for each picture.
        right_of_jpeg: the outputs for each picture after JPEG compression, as whole frames are sent to the server.
        identity, space: what a visitor of the server must know about the model.
    """

    pictures: list[NDArray[np.uint8]]
    right: list[Outputs]
    right_of_jpeg: list[Outputs]
    identity: Identity
    space: Any

    @classmethod
    def of(cls, config: SoakConfig) -> Shown:
        """Compute the right outputs."""
        frames = itertools.islice(iter(open_source(config.source)), _PICTURES)
        pictures = [np.ascontiguousarray(frame.image) for frame in frames]
        model = load_model(config.model)
        engine = Engine(model, EngineConfig(mode=Mode.DENSE, threads=1), with_server=True)
        assert engine.shared is not None

        def outputs(picture: NDArray[np.uint8]) -> Outputs:
            return {name: output.copy() for name, output in engine.run(picture, None).outputs.items()}

        quality = OffloadConfig().jpeg_quality
        sent = [decode_picture(encode(WireImage.JPEG.value, picture, quality)) for picture in pictures]
        return cls(
            pictures=pictures,
            right=[outputs(picture) for picture in pictures],
            right_of_jpeg=[outputs(picture) for picture in sent],
            identity=Identity.of(model),
            space=engine.shared.space,
        )

    def is_right(self, picture: int, where: str, outputs: Outputs) -> bool:
        """Tell whether outputs are right for a picture; ``where`` tells whether that was sent as JPEG."""
        expected = (self.right_of_jpeg if where == "server" else self.right)[picture]
        return outputs.keys() == expected.keys() and all(
            map(_agree, (outputs[name] for name in expected), expected.values())
        )


def _agree(output: NDArray[Any], expected: NDArray[Any]) -> bool:
    least = _TOLERANCE * max(1e-6, float(np.abs(expected).max()))
    return output.shape == expected.shape and np.allclose(output, expected, rtol=_TOLERANCE, atol=least)


def has_matcher(number: int) -> bool:
    """Tell whether a robot's matcher is a process of its own, as for every other robot."""
    return number % 2 == 1


def policy_of(config: SoakConfig, number: int) -> str:
    """Return the ``server.policy`` that a robot is started with."""
    return _turn_of(number).value if config.policy == ALL_POLICIES else config.policy


def robot_command(config: SoakConfig, number: int) -> NodeCommand:
    """Return the command of a robot's node that gives the results."""
    matching = {} if has_matcher(number) else _MATCHING
    return NodeCommand(
        executable="inference" if has_matcher(number) else "cached_inference",
        name=f"robot{number}",
        namespace=f"/robot{number}",
        parameters={
            **_ENGINE, **_CAMERA, **matching, "model": config.model, "result_topic": "results", "server.use": True,
            "server.policy": policy_of(config, number), "server.share_topic": SHARE_TOPIC,
            "server.shared_topic": ANSWER_TOPIC, "server.deadline_ms": _DEADLINE_MS, "server.schedule_s": 1.0,
            "server.probe_max_s": 1.0,  # as places at the server become free all the time
        },
    )  # fmt: skip


def _turn_of(number: int) -> OffloadPolicy:
    """Return a robot's policy: four robots have all of them, and eight each of them with and without a matcher."""
    return _POLICIES[(number + number // len(_POLICIES) + 1) % len(_POLICIES)]


def matcher_command(number: int) -> NodeCommand:
    """Return the command of the matcher of a robot that has one."""
    parameters = {**_CAMERA, **_MATCHING}
    return NodeCommand(
        executable="matcher", name=f"matcher{number}", namespace=f"/robot{number}", parameters=parameters
    )


def server_command(config: SoakConfig) -> NodeCommand:
    """Return the command of the server of all robots."""
    parameters = {**_ENGINE, **_MATCHING, "model": config.model, "server.max_robots": config.slots, **RELAYED}
    return NodeCommand(executable="server", parameters=parameters)
