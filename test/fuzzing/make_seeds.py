# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``python -m fuzzing.make_seeds``: write the seeds anew, where a format has changed."""

from __future__ import annotations

import json
import struct
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import cv2
import numpy as np
import torch
import yaml
from networks.lowered import graph_of
from networks.random_graphs import random_network
from rclpy.serialization import serialize_message
from sensor_msgs.msg import CompressedImage, Image, PointCloud2, PointField
from std_msgs.msg import Header

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.catalog.specialists.other_robots import ClassReport
from cacheinf_ros.catalog.specialists.training_set import TrainingSet, save_training_set
from cacheinf_ros.engine import FrameStart, Pixels, Side
from cacheinf_ros.engine.bounded.calibration import Calibration
from cacheinf_ros.engine.bounded.curve import CurvePoint
from cacheinf_ros.engine.bounded.store import save_calibration
from cacheinf_ros.engine.cost.model import POINTS, CostModel, Curve
from cacheinf_ros.engine.delta_threshold import Criterion, DeltaThreshold
from cacheinf_ros.engine.execution.border import Border
from cacheinf_ros.engine.partition.exchange import Patch
from cacheinf_ros.engine.quality import OutputScale
from cacheinf_ros.engine.quantisation.scales import scales_bytes
from cacheinf_ros.errors import ModelError
from cacheinf_ros.fleet.packet_bytes import packet_bytes
from cacheinf_ros.graph import graph_hash
from cacheinf_ros.graph.graph_io import encode_graph
from cacheinf_ros.graph.int8_scales import Scales
from cacheinf_ros.graph.ir import Conv, Levels
from cacheinf_ros.mode import Mode
from cacheinf_ros.msg import EngineState, InferenceResult
from cacheinf_ros.nodes.class_count_messages import report_message
from cacheinf_ros.nodes.conversions import byte_array, cache_map_message
from cacheinf_ros.nodes.packet_messages import packet_message, result_content, whole_frame
from cacheinf_ros.offload.planning import Machines
from cacheinf_ros.offload.planning.plan_table import solve
from cacheinf_ros.offload.protocol.frames import WireImage, WireType
from cacheinf_ros.offload.protocol.greeting import PROTOCOL, Hello, Welcome, Work, written
from cacheinf_ros.offload.protocol.load_content import load_content
from cacheinf_ros.offload.protocol.packets import Kind, Packet, cut
from cacheinf_ros.offload.protocol.patches import encode_patch
from cacheinf_ros.offload.protocol.pixels import encode_pixels
from cacheinf_ros.offload.protocol.starts import encode_start
from cacheinf_ros.offload.protocol.transfer import Served
from cacheinf_ros.offload.searching.search_messages import question_bytes, table_bytes
from cacheinf_ros.pipeline.map_chain import MapUpdate
from cacheinf_ros.yaml_text import whole_yaml
from fuzzing.decoders import (
    PACKET,
    PATCH_CHANNELS,
    PATCH_ROWS,
    PATCH_WIDTH,
    PIXELS_SIZE,
    space,
    tiny_graph,
    tiny_trunk,
    workload,
)

_SEEDS = Path(__file__).parent / "seeds"
_IMAGE = np.random.default_rng(0).integers(0, 256, (24, 32, 3), np.uint8)
_MOST_BYTES = 60_000  # the size limit of a seed


def main() -> None:
    """Write the seeds of all targets."""
    for target, seeds in {**_sessions(), **_files(), **_messages()}.items():
        folder = _SEEDS / target
        folder.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds):
            assert len(seed) < _MOST_BYTES, target
            (folder / str(number)).write_bytes(seed)


def _sessions() -> dict[str, list[bytes]]:
    robot = Hello(
        protocol=PROTOCOL, model="tiny", network="0" * 32, work=Work.ROWS, wire_type="float32", compress=False,
        patience_ms=200.0,
    )  # fmt: skip
    server = Welcome(protocol=PROTOCOL, instance="0123456789abcdef", profile=[[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]] * 3)
    whole = robot.model_copy(update={"work": Work.FRAMES, "compress": True})
    some, half = _pixels((0, 40), 0.02), _pixels((8, 30), 0.9)
    starts = [
        FrameStart(
            partition=space().everything_at(side), refresh=refresh, outside=Border(outside), shift=shift,
            pixels=Pixels(rows=(0, 48), mask=np.eye(48, 64, dtype=np.uint8), image=np.zeros((48, 64, 3), np.uint8)),
        )
        for side, refresh, outside, shift in ((Side.SERVER, False, 0, (0, 0)), (Side.ROBOT, True, 5, (-4, 8)))
    ]  # fmt: skip
    first, second = (
        list(cut(bytes(range(60)), session="a", epoch=1, kind=kind, frame=frame, tensor=tensor, largest=25))
        for kind, frame, tensor in ((Kind.FRAME, 1, 0), (Kind.ROWS, 2, 3))
    )
    return {
        "hello": [written(robot), written(whole)],
        "welcome": [written(server)],
        "load": [load_content(busy) for busy in (0.0, 0.25, 1.0)],
        "served": [Served(took_ms=20.0, waited_ms=5.0, busy_ms=9.0, last_bytes=4000).encode()],
        "packets": [_sent([*first, *second]), _sent([*second[::-1], *first]), _sent([*second, *first, *second])],
        "start": [encode_start(start, space(), WireImage.PNG, 90) for start in starts],
        "rows": [
            encode_patch(patch, wire, compress=compress)
            for patch in (_patch(0.3), _patch(1.0), _patch(0.0))
            for wire in WireType
            for compress in (False, True)
        ],
        "search": [question_bytes(workload(), _machines(1.0), 50.0)],
        "schedules": [table_bytes(solve(workload(), _machines(speedup), time_limit_s=0.5)) for speedup in (0.5, 5.0)],
        "pixels": [encode_pixels(each, wire, 80) for each in (some, half, _pixels((3, 3), 0)) for wire in WireImage],
        "fleet_packet": [
            packet_bytes(packet)
            for kind in (Kind.HELLO, Kind.ROWS, Kind.BYE)
            for packet in cut(b"content", session="robot_0", epoch=1, kind=kind, frame=1, tensor=2, largest=5)
        ],
    }


def _sent(packets: list[Packet]) -> bytes:
    return b"".join(
        PACKET.pack(each.kind, each.frame, each.tensor, each.part, each.parts, len(each.data)) + each.data
        for each in packets
    )


def _machines(speedup: float) -> Machines:
    robot_ms = np.random.default_rng(0).lognormal(0, 1, (len(workload().names), 1)) * np.array(POINTS)
    return Machines(robot_ms=robot_ms, server_ms=robot_ms / speedup)


def _pixels(rows: tuple[int, int], share: float) -> Pixels:
    shape = rows[1] - rows[0], PIXELS_SIZE[1]
    rng = np.random.default_rng(1)
    mask = (rng.random(shape) < share).astype(np.uint8)
    return Pixels(rows=rows, mask=mask, image=rng.integers(0, 256, (*shape, 3), np.uint8))


def _patch(share: float) -> Patch:
    rng = np.random.default_rng(2)
    mask = (rng.random((PATCH_ROWS[1] - PATCH_ROWS[0], PATCH_WIDTH)) < share).astype(np.uint8)
    values = rng.normal(size=(int(mask.sum()), PATCH_CHANNELS)).astype(np.float32)
    return Patch(rows=PATCH_ROWS, mask=mask, values=values)


def _files() -> dict[str, list[bytes]]:
    deltas = {
        "relu": DeltaThreshold(threshold=0.5, criterion=Criterion.ENERGY, weight=np.ones(8, np.float32)),
        "relu_1": DeltaThreshold(threshold=0.1, criterion=Criterion.MAXIMUM, weight=None),
    }
    point = CurvePoint(factor=1.0, engine_error=0.1, missed_change=0.2, milliseconds=3.0, active_share=0.4)
    calibration = Calibration(base=deltas, curve=(point,), output_scale=OutputScale(deviations=(1.0, 2.0)))
    costs = CostModel(curves={"conv": Curve(rows=(1.0, 2.0, 3.0, 4.0, 5.0))}, propagation_ns=1.0)
    card = {"factory": "detector.onnx", "mean": [127, 127, 127], "std": [128, 128, 128], "scale": 1.0}
    decoder = {"kind": "boxes", "boxes": "boxes", "scores": "scores", "background": 0, "score_threshold": 0.5}
    return {
        "graph": _graphs(),
        "calibration": [_written(calibration)],
        "costs": [json.dumps(asdict(costs)).encode()],
        "card": [
            yaml.safe_dump(each).encode()
            for each in (
                card,
                {**card, "decoder": decoder, "labels": ["a"]},
                {**card, "channel_order": "grey", "mean": [0.5], "std": [0.2]},
                {**card, "fixed_inputs": {"sizes": [[640, 480]], "scale": 1}},
            )
        ],
        "scales": [scales_bytes(_scales())],
        "catalog": [yaml.safe_dump(_catalog(), sort_keys=False).encode(), whole_yaml(_catalog()).encode()],
        "specialise": [whole_yaml(_specialise()).encode()],
        "heads": [whole_yaml(_heads()).encode()],
        "training_set": [_training_set()],
        "picture": [_file(suffix) for suffix in (".png", ".jpg")],
        "compressed": [
            b"jpeg\n" + _file(".jpg"),
            b"bgr8; png compressed bgr8\n" + _file(".png"),
            b"bayer_rggb8; jpeg compressed\n" + _file(".jpg"),
            b"bgr8; tiff compressed bgr8\n" + _file(".tiff"),
            b"32FC1; compressedDepth png\n" + _depth_file(),
        ],
    }  # fmt: skip


def _graphs() -> list[bytes]:
    """Return the smallest random graphs that can be stored, and the small network's graph."""
    found = [encode_graph(tiny_graph())]
    for seed in range(60):
        network = random_network(seed)
        try:
            content = encode_graph(graph_of(network, network.input_size))
        except ModelError:
            continue
        if len(content) < _MOST_BYTES // 2:
            found.append(content)
        if len(found) == 8:
            break
    return found


def _written(calibration: Calibration) -> bytes:
    """Return a calibration as it is stored, without the header that holds its hash."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "file.npz"
        save_calibration(calibration, path)
        return path.read_bytes()[96:]


def _training_set() -> bytes:
    samples = TrainingSet(
        trunk=graph_hash(tiny_trunk().graph), classes=5, features=np.ones((4, 8), np.float32),
        labels=np.array([0, 1, 2, 4]), generic=np.array([0, 1, 1, 4]), held_out=np.array([False, False, True, True]),
    )  # fmt: skip
    with TemporaryDirectory() as folder:
        path = Path(folder) / "set.safetensors"
        save_training_set(samples, path)
        return path.read_bytes()


def _catalog() -> dict[str, object]:
    cost = {
        "energy_j": 1.0,
        "money": 0.0,
        "latency_ms": 5.0,
        "memory_bytes": 100,
        "load_energy_j": 0.0,
        "load_money": 0.0,
    }
    variant = {
        "name": "original", "accuracy": 0.9, "bits": 32, "changes": [], "stored_bytes": 10, "graph": "0" * 32,
        "sha256": "0" * 64, "costs": {"device": cost},
    }  # fmt: skip
    in_int8 = {**variant, "name": "int8", "bits": 8, "int8": True, "scales_sha256": "0" * 64}
    return {
        "format": 1, "name": "room", "model": "file.py:room", "input_size": [48, 64], "measure": "class",
        "data": "built-in", "variants": [variant, in_int8],
    }  # fmt: skip


def _specialise() -> dict[str, object]:
    useful = {"tensor": "relu", "accuracy": 0.9, "ms": 0.6}
    trunk = {"tensor": "relu", "ms": 0.5, "memory_bytes": 100, "sha256": "0" * 64}
    return {
        "format": 1, "classes": 8, "samples": 20, "data": "built-in", "variant_ms": {"original": 2.0},
        "answers": "0" * 64, "trunks": [trunk, {**trunk, "variant": "8bit"}],
        "pairs": [{"n": 7, "p": 0.95, "accuracy": 0.9, "trunks": [useful, {**useful, "variant": "8bit"}]}],
        "dropped": ["conv"],
    }  # fmt: skip


def _heads() -> dict[str, object]:
    head = {"name": "hue", "labels": ["red", "blue"], "accuracy": 0.9, "samples": 20, "sha256": "0" * 64}
    return {
        "version": 1, "model": "file.py:room", "weights": "", "input_size": [48, 64], "cut_at": "", "trunk": "0" * 32,
        "data": "built-in", "heads": [head],
    }  # fmt: skip


def _scales() -> Scales:
    first, second = [operator for operator in tiny_graph().operators if isinstance(operator, Conv)][:2]
    return Scales(
        levels={first.output: Levels(scale=0.5, zero=3)},
        biases={first.output: torch.ones(len(first.bias))},
        weight_scales={first.output: torch.ones(len(first.bias))},
        floats=frozenset({second.output}),
    )


def _file(suffix: str) -> bytes:
    return bytes(cv2.imencode(suffix, _IMAGE)[1].tobytes())


def _depth_file() -> bytes:
    """Return reciprocals of distances as compressed_depth_image_transport sends them."""
    return struct.pack("<iff", 0, 10_100, -1009) + cv2.imencode(".png", _IMAGE[:, :, 0].astype(np.uint16))[1].tobytes()


def _messages() -> dict[str, list[bytes]]:
    header = Header(frame_id="camera")
    shown = np.zeros((3, 4), np.bool_)
    shown[1:] = True
    maps = [
        CacheMap(image_size=(24, 32), block_size=8, reusable=reusable, motion=motion)
        for reusable in (shown, ~shown)
        for motion in (Motion.none(), Motion.translation(2.0, -3.5))
    ]
    updates = [
        MapUpdate(session="m", sequence=2, reference_sequence=1, stamp_ns=5, reference_stamp_ns=4, cache_map=each)
        for each in maps
    ]
    raw = [
        Image(
            header=header, height=24, width=32, encoding=encoding, step=32 * channels,
            data=byte_array(_IMAGE.tobytes()[: 24 * 32 * channels]),
        )
        for encoding, channels in (("bgr8", 3), ("mono8", 1), ("bayer_rggb8", 1), ("yuv422", 2))
    ]  # fmt: skip
    numbers = np.linspace(0, 6000, 24 * 32)
    raw += [
        Image(
            header=header, height=24, width=32, encoding=encoding, step=32 * np.dtype(kind).itemsize,
            data=byte_array(numbers.astype(kind).tobytes()),
        )
        for encoding, kind in (("mono16", "<u2"), ("32FC1", "<f4"))
    ]  # fmt: skip
    pictures = [
        CompressedImage(header=header, format=name, data=byte_array(content))
        for name, content in (
            ("jpeg", _file(".jpg")),
            ("rgb8; png compressed bgr8", _file(".png")),
            ("32FC1; compressedDepth png", _depth_file()),
        )
    ]
    clouds = [
        PointCloud2(
            header=header, height=height, width=12 // height, point_step=step, row_step=12 // height * step,
            fields=[
                PointField(name=name, offset=4 * axis, datatype=PointField.FLOAT32, count=1)
                for axis, name in enumerate("xyz")
            ],
            data=byte_array(np.linspace(-5, 5, 3 * step, dtype="<f4").tobytes()),
        )
        for height, step in ((1, 12), (3, 16))
    ]  # fmt: skip
    packets = [
        packet for kind in Kind for packet in cut(b"content", session="robot_0", epoch=1, kind=kind, frame=1, tensor=0)
    ]
    values = np.arange(10, dtype=np.float32)
    answer = InferenceResult(
        model="tiny", mode="dense", where="server", stage_names=["compute"], stage_ms=[1.0], output_names=["output"],
        output_dtypes=["float32"], output_ranks=[2], output_shapes=[1, 10], output_sizes=[40],
        data=byte_array(values.tobytes()), box_x=[1.0], box_y=[2.0], box_width=[3.0], box_height=[4.0],
        box_class_ids=[0], box_class_names=["disc"], box_scores=[0.5], box_key_points=[1],
        key_point_x=[1.0], key_point_y=[2.0], key_point_scores=[0.5],
    )  # fmt: skip
    return {
        "class_counts": [
            bytes(serialize_message(report_message(ClassReport(robot="a", model="0" * 64, counts=counts))))
            for counts in ({}, {3: 40}, {3: 40, 999: 1, 0: 7})
        ],
        "cache_map": [bytes(serialize_message(cache_map_message(header, update, (0.0, 0.0)))) for update in updates],
        "image": [bytes(serialize_message(message)) for message in raw],
        "compressed_image": [bytes(serialize_message(message)) for message in pictures],
        "point_cloud": [bytes(serialize_message(message)) for message in clouds],
        "packet": [bytes(serialize_message(packet_message(packet))) for packet in packets],
        "frame": [whole_frame(5, _file(".png"))],
        "engine_state": [
            bytes(serialize_message(EngineState(mode=mode.value, dense_ms=20.0, wants_maps=mode is not Mode.BOUNDED)))
            for mode in Mode
        ],
        "result": [result_content(InferenceResult(model="tiny", mode="exact", where="server")), result_content(answer)],
    }


if __name__ == "__main__":
    main()
