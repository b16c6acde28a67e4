# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Sessions in int8 transfer levels as they are, and only between machines that agree on their meaning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from networks.shared_models import mixed_model
from oracle import changed
from partitions import nearest
from quantised import scales_of
from sessions import ENGINE, OFFLOAD, both, until

from cacheinf_ros.engine import Engine, EngineConfig, Mode, Partition, PartitionSpace, Precision, lay_out
from cacheinf_ros.engine.backends import choose_backend
from cacheinf_ros.engine.partition.exchange import Patch
from cacheinf_ros.engine.quantisation import graph_in_levels, keep_scales
from cacheinf_ros.errors import MessageError
from cacheinf_ros.offload.protocol.frames import WireType
from cacheinf_ros.offload.protocol.patches import decode_patch, encode_patch

MODEL = mixed_model()
INT8 = ENGINE.changed(precision=Precision.INT8)
needs_kernels = pytest.mark.skipif(
    not choose_backend("cpu", 1, Precision.INT8).takes_levels, reason="the compiled kernels are not built"
)


@pytest.fixture(autouse=True)
def scales(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    keep_scales(MODEL, scales_of(MODEL))


def first_levels(space: PartitionSpace) -> str:
    """Return the first tensor after the input."""
    return next(name for name in space.heights if name in space.levels)


def divided(space: PartitionSpace, tensor: str, share: float) -> Partition:
    """Return the partition with all rows at the robot, but only a share of this tensor's rows."""
    return nearest(space, {**dict.fromkeys(space.heights, 1.0), tensor: share})


@needs_kernels
@pytest.mark.parametrize("wire", [WireType.FLOAT32, WireType.INT8])
def test_shared_frames_equal_dense_bit_for_bit(wire: WireType) -> None:
    """The wire dtype of floats must not matter, as no floats are transferred."""
    dense = Engine(MODEL, INT8.changed(mode=Mode.DENSE))
    rng = np.random.default_rng(0)
    image, cache_map = rng.integers(0, 256, (90, 80, 3), dtype=np.uint8), None
    with both(MODEL, config=OFFLOAD.changed(wire_dtype=wire), engine=INT8) as sessions:
        sessions.connect()
        shared = sessions.engine.shared
        assert shared is not None
        for share in (0.0, 0.5, 0.0, 1.0, 0.3):
            partition = divided(shared.space, first_levels(shared.space), share)
            peer = sessions.robot.frame(lambda _, partition=partition: partition)  # type: ignore[misc]
            result = sessions.engine.run(image, cache_map, peer)
            assert result.where == "shared", shared.complaint
            for name, expected in dense.run(image, None).outputs.items():
                assert np.array_equal(result.outputs[name], expected)
            image, cache_map = changed(image, 5, 0.1, rng)


@needs_kernels
@pytest.mark.parametrize(("engine", "value_bytes"), [(ENGINE, 4), (INT8, 1)])
def test_a_level_is_a_byte(engine: EngineConfig, value_bytes: int) -> None:
    """All values of a first frame are transferred, with a bit for each pixel and 14 bytes beside them."""
    with both(MODEL, engine=engine) as sessions:
        sessions.connect()
        shared = sessions.engine.shared
        assert shared is not None
        tensor = first_levels(PartitionSpace(lay_out(graph_in_levels(MODEL))))
        partition = divided(shared.space, tensor, 0.0)
        peer = sessions.robot.frame(lambda _: partition)
        assert sessions.engine.run(np.zeros((90, 80, 3), np.uint8), None, peer).where == "shared"
        rows, width, channels = shared.space.shapes[tensor]
        assert peer is not None
        assert peer.bytes_received == 14 + -(-rows * width // 8) + value_bytes * rows * width * channels


@needs_kernels
@pytest.mark.parametrize(
    ("robot", "server"),
    [("int8", "float32"), ("float32", "int8"), ("int8", "int8"), ("bfloat16", "float32"), ("int8", "bfloat16")],
)
def test_levels_that_mean_something_else_are_refused(robot: str, server: str) -> None:
    """A server with another precision or other scales refuses; the robot computes alone and is told the remedy."""
    with both(MODEL, engine=ENGINE.changed(precision=Precision(robot))) as sessions:
        sessions.server_engine = ENGINE.changed(precision=Precision(server))
        keep_scales(MODEL, scales_of(MODEL, seed=1))
        until(lambda: "refuses" in sessions.robot.complaint, sessions.robot.poll)
        assert ("computes in int8" if "float32" in (robot, server) else "different scales") in sessions.robot.complaint
        assert "set precision" in sessions.robot.complaint and "scales" in sessions.robot.complaint


def levels(share: float) -> Patch:
    rng = np.random.default_rng(0)
    mask = (rng.random((7, 13)) < share).astype(np.uint8)
    values = rng.integers(0, 256, (int(mask.sum()), 5), np.uint8)
    return Patch(rows=(3, 10), mask=mask, values=values)


@pytest.mark.parametrize("wire", WireType)
@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_levels_come_back_as_they_are(wire: WireType, compress: bool, share: float) -> None:
    sent = levels(share)
    content = encode_patch(sent, wire, compress=compress)
    back = decode_patch(content, (3, 10), 13, 5, are_levels=True)
    assert back.values.dtype == np.uint8
    assert (back.mask == sent.mask).all() and (back.values == sent.values).all()
    assert compress or len(content) == 14 + -(-7 * 13 // 8) + sent.values.size


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.bool_])
def test_what_is_no_level_is_refused_before_it_is_read(dtype: type) -> None:
    sent = levels(0.3)
    content = encode_patch(replace(sent, values=sent.values.astype(dtype), is_map=False), WireType.FLOAT32)
    with pytest.raises(MessageError, match="where levels of uint8 were expected"):
        decode_patch(content, (3, 10), 13, 5, are_levels=True)


def test_levels_are_counted_as_values_are() -> None:
    content = encode_patch(levels(1.0), WireType.FLOAT32)
    with pytest.raises(MessageError, match="cannot be"):
        decode_patch(content, (3, 10), 13, 4, are_levels=True)
    with pytest.raises(MessageError, match="are announced"):
        decode_patch(content[:-1], (3, 10), 13, 5, are_levels=True)
