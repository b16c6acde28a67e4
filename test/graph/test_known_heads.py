# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Exports of YOLO, YOLOX, NanoDet, PicoDet, DETR, YuNet and SCRFD need no card, and run exactly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yolo
from networks.lowered import graph_of
from oracle import assert_equals_dense, changed
from torch import nn

from cacheinf_ros.engine import Engine, EngineConfig, Mode, decode
from cacheinf_ros.graph import Model, ModelCard, load_model
from cacheinf_ros.graph.export_notes import ExportNotes
from cacheinf_ros.graph.graph_io import decode_graph, encode_graph
from cacheinf_ros.graph.known_heads import yolo_head
from cacheinf_ros.graph.known_models import recognised
from cacheinf_ros.sources import open_source

SIZE = (96, 128)
CELLS = 12 * 16 + 6 * 8 + 3 * 4

NETWORKS: dict[str, tuple[Callable[[], nn.Module], dict[str, Any]]] = {
    "v5": (yolo.Yolo5, {"values_first": False, "objectness": True, "masks": ""}),
    "v5-seg": (lambda: yolo.Yolo5(masks=32), {"values_first": False, "masks": "output1"}),
    "v8": (yolo.Yolo8, {"values_first": True, "objectness": False, "key_points": 0}),
    "v8-seg": (lambda: yolo.Yolo8(masks=32), {"values_first": True, "masks": "output1"}),
    "v8-pose": (lambda: yolo.Yolo8(1, key_points=17), {"key_points": 17, "key_point_values": 3}),
    "v11": (lambda: yolo.Yolo8(v11=True), {"values_first": True, "objectness": False}),
    "v11-seg": (lambda: yolo.Yolo8(v11=True, masks=32), {"masks": "output1"}),
    "v11-pose": (lambda: yolo.Yolo8(1, v11=True, key_points=17), {"key_points": 17}),
    "yolox": (yolo.YoloX, {"values_first": False, "objectness": True, "strides": (8, 16, 32)}),
    "nanodet-plus": (yolo.NanoDetPlus, {"strides": (8, 16, 32, 64), "cell_center": 0.0}),
    "picodet": (yolo.PicoDet, {"kind": "nanodet", "strides": (8, 16, 32, 64), "cell_center": 0.5}),
    "yunet": (yolo.FaceHeads, {"kind": "grids", "distances": False, "key_points": 5}),
    "scrfd": (
        lambda: yolo.FaceHeads(anchors=2, widths=(1, 4, 10)),
        {"kind": "grids", "distances": True, "key_points": 5},
    ),
    "scrfd, boxes only": (lambda: yolo.FaceHeads(anchors=2, widths=(1, 4)), {"distances": True, "key_points": 0}),
    "scrfd, no batch": (
        lambda: yolo.FaceHeads(anchors=2, widths=(1, 4, 10), batch=False),
        {"distances": True, "key_points": 5},
    ),
    "detr": (yolo.QueryHead, {"kind": "boxes", "activation": "softmax", "background": 91}),
}


FIRST_LABELS = {"detr": "nothing", **{name: "face" for name in NETWORKS if "scrfd" in name or name == "yunet"}}


@pytest.fixture(scope="module", params=NETWORKS)
def known(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Model]:
    """Load an export of a known network that has only its file name to go by."""
    name = str(request.param)
    torch.manual_seed(1)  # with other weights there may be no mask at all
    module, path = yolo.lively(NETWORKS[name][0]()), tmp_path_factory.mktemp("yolo") / f"{name}.onnx"
    return name, load_model(str(yolo.exported(module, path, SIZE)))


def test_no_card_is_needed(known: tuple[str, Model]) -> None:
    name, model = known
    assert model.graph.unknown == ()
    decoder = model.card.decoder
    assert decoder is not None
    assert {key: getattr(decoder, key) for key in NETWORKS[name][1]} == NETWORKS[name][1]
    assert model.card.labels[0] == FIRST_LABELS.get(name, "person")
    prepared = (model.card.resize, model.card.channel_order, model.card.std)
    assert prepared == {
        "yolox": ("letterbox_corner", "bgr", (1, 1, 1)),
        "nanodet-plus": ("letterbox", "bgr", (57.375, 57.12, 58.395)),
        "picodet": ("stretch", "rgb", (0.229, 0.224, 0.225)),
        "detr": ("stretch", "rgb", (0.229, 0.224, 0.225)),
        "yunet": ("letterbox_corner", "bgr", (1, 1, 1)),
        **{each: ("letterbox_corner", "rgb", (128, 128, 128)) for each in NETWORKS if "scrfd" in each},
    }.get(name, ("letterbox", "rgb", (1, 1, 1)))


def test_exports_run_exactly(known: tuple[str, Model]) -> None:
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (90, 150, 3), dtype=np.uint8)
    engine = Engine(known[1], EngineConfig(mode=Mode.EXACT, threads=1, dense_fallback=False))
    assert_equals_dense(engine, image, None)
    for share in (0.03, 0.0, 0.3):
        image, cache_map = changed(image, 10, share, rng)
        assert_equals_dense(engine, image, cache_map)


def test_exports_are_read_by_their_decoder(known: tuple[str, Model]) -> None:
    name, model = known
    engine = Engine(model, EngineConfig(mode=Mode.EXACT, threads=1))
    outputs = engine.run(np.random.default_rng(0).integers(0, 256, (90, 150, 3), dtype=np.uint8), None).outputs
    assert model.card.decoder is not None
    some = model.card.changed(decoder={**model.card.decoder.model_dump(), "score_threshold": 1e-6})
    found = decode(outputs, some, (90, 150)).boxes
    assert found and found[0].name in model.card.labels
    points = getattr(model.card.decoder, "key_points", 0)
    assert all(len(box.key_points) == points for box in found)
    assert any(box.outlines for box in found) == ("seg" in name)


@pytest.mark.parametrize(("name", "shape"), [("v8", (1, 84, 8400)), ("v5", (1, 25200, 85))])
def test_the_shapes_of_640_pixels(tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
    module = yolo.lively(NETWORKS[name][0]())
    model = load_model(str(yolo.exported(module, tmp_path / "y.onnx", (640, 640))))
    assert model.graph.tensors[model.graph.outputs[0][1]].shape == shape
    assert model.card.decoder is not None and model.card.decoder.kind == "yolo"


def test_a_file_names_its_own_classes(tmp_path: Path) -> None:
    module = yolo.lively(yolo.Yolo8(52))
    path = yolo.exported(
        module, tmp_path / "y.onnx", SIZE, task="detect", names=str({i: f"part {i}" for i in range(52)})
    )
    card = load_model(str(path)).card
    assert card.labels[51] == "part 51"  # without notes 4 + 52 values are a pose
    assert card.decoder is not None and card.decoder.key_points == 0
    yolo.exported(
        yolo.lively(yolo.Yolo8(2, key_points=4)), path, SIZE, task="pose", kpt_shape="[4, 3]", names="['a', 'b']"
    )
    card = load_model(str(path)).card
    assert card.labels == ("a", "b") and card.decoder is not None and card.decoder.key_points == 4


def test_a_task_of_another_layout_is_left_alone(tmp_path: Path) -> None:
    """Oriented boxes have an angle behind the classes, which was taken for one more class."""
    path = yolo.exported(yolo.lively(yolo.Yolo8(16)), tmp_path / "y.onnx", SIZE, task="obb")
    assert load_model(str(path)).card.decoder is None


@pytest.mark.parametrize("softmax", [True, False])
def test_a_classifier_is_known_by_its_notes(tmp_path: Path, softmax: bool) -> None:
    """Its images have values of 0 to 1 without ImageNet's mean, which a classifier without notes gets."""
    layers = [nn.Conv2d(3, 5, 3, 8, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), *([nn.Softmax(1)] if softmax else [])]
    module, names = nn.Sequential(*layers).eval(), {i: f"thing {i}" for i in range(5)}
    card = load_model(str(yolo.exported(module, tmp_path / "y.onnx", SIZE, task="classify", names=str(names)))).card
    assert (card.scale, card.mean, card.std, card.channel_order) == (1 / 255, (0, 0, 0), (1, 1, 1), "rgb")
    assert card.labels == tuple(names.values())
    assert card.decoder is not None and (card.decoder.kind, card.decoder.softmax) == ("classes", not softmax)
    fewer = yolo.exported(module, tmp_path / "z.onnx", SIZE, task="classify", names="['thing 0']")
    assert load_model(str(fewer)).card.mean != (0, 0, 0)


def test_notes_that_make_no_sense_are_none(tmp_path: Path) -> None:
    path = yolo.exported(yolo.lively(yolo.Yolo8(3)), tmp_path / "y.onnx", SIZE, names="{'a': ", kpt_shape="[1]")
    card = load_model(str(path)).card
    assert card.decoder is not None and card.labels == ()


def test_a_kept_graph_is_known_as_well(known: tuple[str, Model]) -> None:
    _, model = known
    bare = ModelCard(name=model.card.name, factory=model.card.factory, input_size=SIZE)
    assert recognised(bare, decode_graph(memoryview(encode_graph(model.graph)))) == model.card


class Decoded(nn.Module):
    """YOLOX with decode_in_inference, or YOLOv6: they have the same shapes but expect different images."""

    def __init__(self) -> None:
        super().__init__()
        self.raw = yolo.YoloX()

    def forward(self, image: Any) -> Any:
        raw = self.raw(image)
        return raw * (0.5 + 0.01 * (raw[:, :1, :1] * 0 + 1)) + 1


def test_shapes_in_doubt_are_left_alone() -> None:
    bare = ModelCard(name="t", factory="t", input_size=SIZE)
    assert recognised(bare, graph_of(yolo.lively(Decoded()), SIZE)) is bare
    assert recognised(bare, graph_of(yolo.QueryHead(300, 80).eval(), SIZE)) is bare  # scores or logits?
    graph = graph_of(yolo.lively(yolo.Yolo8()), SIZE)
    assert yolo_head(graph, ExportNotes()) is not None
    assert yolo_head(graph_of(nn.Conv2d(3, 84, 3, 8, 1), SIZE), ExportNotes()) is None


class FlatMap(nn.Module):
    """A map of depths or of classes without a dimension for its channel: [1, h, w], in a part of the picture's size."""

    def __init__(self, channels: int, step: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, channels, 3, step, 1)

    def forward(self, image: Any) -> Any:
        found = self.convolution(image)
        return found.argmax(1) if found.shape[1] > 1 else found.flatten(0, 1)


@pytest.mark.parametrize("channels", [1, 5])
@pytest.mark.parametrize(("size", "step"), [((48, 64), 1), ((40, 24), 1), ((32, 48), 1), ((16, 8), 2), ((8, 16), 2)])
def test_a_map_with_as_many_lines_or_columns_as_cells_holds_no_boxes(
    size: tuple[int, int], step: int, channels: int
) -> None:
    """48 x 64 pixels have 64 cells in strides of 8, 16 and 32: each column of a depth map was a box."""
    graph = graph_of(FlatMap(channels, step).eval(), size)
    assert graph.tensors[graph.outputs[0][1]].shape == (1, size[0] // step, size[1] // step)
    bare = ModelCard(name="t", factory="t", input_size=size)
    assert recognised(bare, graph) is bare


def test_nanodet_finds_bottles(shared_data: Path) -> None:
    model = load_model(str(shared_data / "models" / "nanodet_m.onnx"))
    engine = Engine(model, EngineConfig(mode=Mode.EXACT, threads=1))
    for frame in open_source(str(shared_data / "clips" / "bottle-detection.mp4")):
        if frame.index == 500:
            break
    found = decode(engine.run(frame.image, None).outputs, model.card, frame.image.shape[:2]).boxes
    bottles = sorted(box.x + box.width / 2 for box in found if box.name == "bottle")
    assert bottles == pytest.approx([100, 315, 542], abs=12)
