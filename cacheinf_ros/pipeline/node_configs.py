# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The parameters of the nodes that do not belong to the parts that they run."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Self

from pydantic import field_validator, model_validator

from cacheinf_ros.config import Config, parameter, unlisted
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.offload_policy import OffloadPolicy
from cacheinf_ros.sources import ValueRange, VoxelGrid, parse_voxel_grid


class ImageTransport(Enum):
    """The type of the image topic: ``sensor_msgs/Image`` or ``sensor_msgs/CompressedImage``."""

    RAW = "raw"
    COMPRESSED = "compressed"


class Reliability(Enum):
    """The QoS reliability of the subscription to images."""

    AUTO = "auto"
    """Reliable where all publishers are reliable, otherwise best effort."""
    RELIABLE = "reliable"
    """Loses no frame, and receives nothing from best-effort publishers."""
    BEST_EFFORT = "best_effort"
    """Receives from every publisher, and may lose frames."""


class Outputs(Enum):
    """Which of the model's outputs a result carries."""

    DECODED = "decoded"
    """Classes and boxes, and the raw tensors only where nothing else says what they do."""
    ALL = "all"
    """Classes, boxes and the raw tensors."""


class StampSource(Enum):
    """The source of a replayed image's stamp."""

    CLOCK = "clock"
    SOURCE = "source"


class WatchConfig(Config):
    """The limits beyond which a node reports itself as slow or stuck in /diagnostics."""

    group = "diagnostics"

    latency_budget_ms: float = parameter(
        200.0,
        "a median latency above this, of the last hundred frames, makes /diagnostics WARN, ms",
        low=0.0,
        high=4000.0,
        live=True,
    )
    stuck_after_s: float = unlisted(
        10.0,
        "working on one frame, or giving no result, for longer makes /diagnostics ERROR, s",
        low=0.1,
        high=200.0,
        live=True,
    )


class LifecycleConfig(Config):
    """Whether a node activates itself."""

    autostart: bool = unlisted(
        True, "configure and activate the node when it starts; false: `ros2 lifecycle set` or ~/enable does that"
    )


def _listed(value: Iterable[float]) -> tuple[float, ...]:
    return tuple(value) if isinstance(value, Iterable) else value  # rclpy passes an array


def _with_usable_range(value: tuple[float, ...]) -> tuple[float, ...]:
    try:
        _value_range(value)
    except ConfigError as error:
        raise ValueError(f"{error}, such as [7000.0, 9000.0]") from None
    return value


class ImageConfig(Config):
    """The topic of the camera's images, or of a lidar's clouds of points."""

    image_topic: str = parameter(
        "camera/image",
        "the camera's images; '/compressed' is appended for compressed transport, unless it ends with /compressedDepth",
    )
    image_transport: ImageTransport = parameter(ImageTransport.RAW, "type of the images: raw or compressed")
    image_reliability: Reliability = unlisted(
        Reliability.AUTO,
        "auto: reliable where all publishers are, which loses nothing, else best_effort, which receives from every one",
    )
    image_values: tuple[float, ...] = unlisted(
        (0.0, 0.0),
        "raw values of a thermal, depth or other camera of more than 8 bits that become black and white; both 0: the "
        "upper byte of 16 bits counts",
        example="[7000.0, 9000.0]",
    )
    voxels: str = unlisted(
        "",
        "cells that show the clouds of points (PointCloud2) of image_topic: how many along x, y and z, from where to "
        "where they reach, and the order of axes (zxy); empty: it has images",
        example="256x256x32, 0..51.2, -25.6..25.6, -2..4.4",
    )
    queue_size: int = unlisted(
        1, "frames that wait while one is worked on; 1: the latest wins; more for recordings", low=1, high=10_000
    )

    _listed = field_validator("image_values", mode="before")(_listed)
    _usable = field_validator("image_values")(_with_usable_range)

    @field_validator("voxels")
    @classmethod
    def _with_usable_grid(cls, given: str) -> str:
        try:
            return str(parse_voxel_grid(given)) if given.strip() else ""
        except ConfigError as error:
            raise ValueError(str(error)) from None

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        if self.voxels and (self.image_transport is not ImageTransport.RAW or any(self.image_values)):
            raise ValueError("voxels are of clouds of points: leave image_transport and image_values out")
        return self

    @property
    def voxel_grid(self) -> VoxelGrid | None:
        """The cells that show clouds of points; None: there are images."""
        return parse_voxel_grid(self.voxels) if self.voxels else None

    @property
    def value_range(self) -> ValueRange | None:
        """The raw values that become black and white; None: the upper byte of 16 bits is kept."""
        return _value_range(self.image_values)


class RightImageConfig(Config):
    """The topic of the camera whose pictures are shown on the right."""

    group = "right"

    image_topic: str = parameter(
        "camera/right/image", "the images that are shown on the right: of a stereo camera's right half, or of depth"
    )
    image_transport: ImageTransport = parameter(ImageTransport.RAW, "type of these images: raw or compressed")
    image_values: tuple[float, ...] = unlisted(
        (0.0, 0.0), "as image_values, of these images: the distances that become black and white", example="[0.3, 8.0]"
    )

    def beside(self, left: ImageConfig) -> ImageConfig:
        """Return the configuration of a camera that is like the ``left`` one otherwise."""
        return left.changed(
            image_topic=self.image_topic,
            image_transport=self.image_transport,
            image_values=self.image_values,
        )

    _listed = field_validator("image_values", mode="before")(_listed)
    _usable = field_validator("image_values")(_with_usable_range)


class PairConfig(Config):
    """Which pictures are shown side by side."""

    most_apart_ms: float = parameter(
        20.0,
        "how far apart the stamps of two pictures may be to be shown side by side, ms",
        low=0.0,
        high=1000.0,
        live=True,
    )


def _value_range(values: tuple[float, ...]) -> ValueRange | None:
    if len(values) != 2:
        raise ConfigError(f"{len(values)} values: give two, that of black and that of white")
    return ValueRange(*values) if any(values) else None


class PairingConfig(Config):
    """How long the inference node waits for cache maps."""

    map_timeout_ms: float = unlisted(
        200.0, "time after which a frame is computed without its cache map, ms", low=0.0, high=60_000.0
    )


class ModelConfig(Config):
    """The model to run."""

    model: str = parameter(
        "scenenet",
        "torchvision:NAME, package.module:factory, file.py:factory, an .onnx file, trusted:FILE.pt2, a card .yaml, or "
        "a name that `cacheinf models list` lists",
    )
    weights: str = parameter("", "safetensors or state dict file in place of the model's own; empty: none")
    input_size: str = parameter(
        "",
        "size of the model's input, such as 480x640 (height x width); empty: the model's own",
        example="480x640",
    )
    cameras: int = unlisted(
        1,
        "device cuda: how many cameras of one process share launches of the model, with memory for all of them from "
        "the first one on; 1: each is computed by itself",
        low=1,
        high=64,
        name="gpu.cameras",
    )


class AnswerConfig(Config):
    """The selection of the model's answers that are reported."""

    score_threshold: float = parameter(
        0.0,
        "boxes and classes below this score are left out; 0: as the model's card says",
        low=0.0,
        high=1.0,
        live=True,
    )
    classes: str = parameter(
        "", "classes to report, names or ids separated by commas, such as person, car; empty: all", live=True
    )
    region: tuple[float, ...] = parameter(
        (0.0, 0.0, 1.0, 1.0),
        "boxes are reported whose centre lies here: left, top, width and height, as shares of the picture's",
        live=True,
    )
    tracks: bool = unlisted(
        False, "follow objects from frame to frame: detections keep their id, the overlay shows it", live=True
    )


class OutputLimitConfig(Config):
    """The limit for the outputs in a result."""

    max_output_bytes: int = unlisted(
        900_000, "outputs that do not fit in so many bytes are left out of the result", low=0, high=2**31 - 1
    )


class ResultConfig(OutputLimitConfig):
    """The topic of results, and what they carry."""

    result_topic: str = parameter("~/result", "results, one per accepted image")
    outputs: Outputs = parameter(
        Outputs.DECODED,
        "what results carry: decoded (classes, boxes; raw tensors only where nothing else says what they do) or all",
        live=True,
    )


class ServerTopicsConfig(Config):
    """The topics between inference nodes and the server."""

    group = "server"

    share_topic: str = unlisted("frame_shares", "what robots send to the server")
    shared_topic: str = unlisted("frame_shared", "what the server sends; one topic per session below this name")


class LimitConfig(Config):
    """A limit that makes the link slower than it is."""

    group = "server"

    limit_link: str = unlisted(
        "",
        "for trying out: send no faster than over a link of so many Mbit/s, or over one that follows a trace: a CSV "
        "file with the columns seconds and mbit_s, or one of config/traces; empty: as fast as it goes",
    )


class SharingConfig(Config):
    """How frames are shared with a server."""

    group = "server"

    offload_policy: OffloadPolicy = parameter(
        OffloadPolicy.CACHEINF,
        "who computes what: cacheinf divides every operator's rows, with caches, whichever way a frame ends soonest; "
        "local, remote (changed pixels go to the server), remote_jpeg (whole frames do)",
        live=True,
        name="server.policy",
    )
    slower_for_energy: float = unlisted(
        0.0,
        "policy cacheinf: a frame may end later than the soonest by this share (0.1: a tenth) where that costs the "
        "robot's battery less; 0: it ends soonest",
        low=0.0,
        high=10.0,
        live=True,
    )
    schedule_s: float = unlisted(
        50.0,
        "how long to search for schedules when a server is met for the first time: there, or here if it does not, s",
        low=1.0,
        high=3600.0,
    )


class UseServerConfig(SharingConfig):
    """Whether and how the inference node uses a server."""

    use_server: bool = parameter(
        False,
        "share frames with a server, and compute alone those of which its part does not come in time",
        name="server.use",
    )


class ServerConfig(Config):
    """The limits that the server sets itself."""

    group = "server"

    max_robots: int = parameter(
        8,
        "robots that have a cache here at a time; each model of a robot counts, and where it is used both ways at a "
        "time, sharing frames and sending whole ones count each; one more is turned away, unless another has been "
        "silent for 5 s, which is then forgotten",
        low=1,
        high=1000,
    )
    fleet: str = unlisted(
        "",
        "robots' rows are computed by a fleet on Ray, and this node is a gateway to it: ray://HOST:PORT, HOST:PORT of "
        "a cluster that this machine has joined, or local for one of its own; empty: this process computes",
        name="fleet",
    )
    forget_after_s: float = parameter(
        30.0,
        "silence after which a robot is forgotten, and the memory it takes here given back, s",
        low=5.0,
        high=600.0,
        live=True,
    )
    search_s: float = unlisted(
        120.0,
        "longest search for schedules for a robot, in a process of its own; 0: robots search for themselves, s",
        low=0.0,
        high=3600.0,
    )


class ReplayConfig(Config):
    """What the replay node publishes as a camera, and how fast."""

    source: str = parameter(
        "scene:handheld",
        "a video, a bag, a folder of images (bag or folder: ?values=7000..9000 for raw values; bag: ?voxels=... for "
        "clouds of points), or scene:NAME; two of "
        "them with ' + ' between are shown side by side",
    )
    rate: float = parameter(0.0, "images per second; 0: the source's own rate", low=0.0, high=10_000.0)
    loop: bool = parameter(False, "start again at the end")
    frames: int = parameter(0, "images to publish at most; 0: all", low=0, high=2**31 - 1)
    every: int = unlisted(
        1, "publish every so many images of the source only, at its times: a slower camera", low=1, high=1000
    )
    image_topic: str = parameter("camera/image", "where to publish; '/compressed' is appended for compressed transport")
    image_transport: ImageTransport = parameter(ImageTransport.RAW, "type of the images: raw or compressed")
    frame_id: str = parameter("camera", "frame_id of the images' headers")
    stamp: StampSource = parameter(
        StampSource.CLOCK, "clock: stamps are this node's time; source: the source's, from 1 s on"
    )
    publish_clock: bool = parameter(False, "publish the source's time on /clock; stamps are then the source's")
    wait_for_subscribers: int = parameter(0, "subscribers to the images to wait for before the first", low=0, high=100)
    wait_timeout_s: float = unlisted(
        60.0, "how long to wait for wait_for_subscribers, or for word from wait_for_node, s", low=0.0, high=3600.0
    )
    settle_s: float = unlisted(
        0.3, "pause once the subscribers are there: they may learn of us later than we of them, s", low=0.0, high=3600.0
    )
    queue_size: int = unlisted(
        2, "images kept for reliable subscribers that have not received them yet; more lose none", low=1, high=10_000
    )
    linger_s: float = unlisted(1.0, "how long to wait for the last image to be received, s", low=0.0, high=3600.0)


class ReplayPaceConfig(Config):
    """The inference node that the replay node does not leave behind."""

    wait_for_node: str = unlisted(
        "", "inference node that is waited for while many images are before it, by its diagnostics; empty: none"
    )
    most_ahead: int = unlisted(
        500,
        "images not yet answered at which it is waited for; its queue_size must be larger",
        low=1,
        high=10_000,
    )
