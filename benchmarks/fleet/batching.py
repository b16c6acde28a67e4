# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``python -m benchmarks.fleet.batching``: measures whether dense frames of several robots are faster as one batch.

Batches are compared with what a server does without them: frames one after the other on all of its threads, and as
many at once as there are threads, each on one, as the processes of a fleet compute them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from cacheinf_ros.config import parse_size
from cacheinf_ros.engine.dense_backends import Dense, run_by_onnxruntime, run_by_openvino
from cacheinf_ros.engine.onnx_content import onnx_content
from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph import load_model

_ENGINES: dict[str, Callable[[bytes, int], Dense]] = {"onnxruntime": run_by_onnxruntime, "openvino": run_by_openvino}
_WARM = 2  # warm-up rounds
_SAME = 1e-3  # tolerance as a share of the outputs' largest value: sums are in another order


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """Median milliseconds of a frame: in turn on all threads, at once on a thread each, and in a batch."""

    engine: str
    robots: int
    in_turn_ms: float
    at_once_ms: float
    batch_ms: float

    @property
    def gain(self) -> float:
        """The share of the time that a batch saves against the faster of the other two ways."""
        return 1 - self.batch_ms / min(self.in_turn_ms, self.at_once_ms)


def main(
    model: Annotated[list[str], typer.Option("--model", "-m", help="Any; may come several times.")] = [  # noqa: B006
        "torchvision:resnet50"
    ],
    size: Annotated[str, typer.Option(metavar="HEIGHTxWIDTH", help="Of models that do not fix it.")] = "224x224",
    robots: Annotated[str, typer.Option(help="Frames in a batch, separated by commas.")] = "2,4,8",
    threads: Annotated[int, typer.Option(min=1, help="Of the machine.")] = 2,
    rounds: Annotated[int, typer.Option(min=3, help="Of each way, in turns.")] = 15,
) -> None:
    """Measure batches of dense frames on this machine's processor."""
    for reference in model:
        loaded = load_model(reference, input_size=None if reference.endswith(".onnx") else parse_size(size))
        content, shape = onnx_content(loaded), (3, *loaded.input_size)
        table = Table(
            "engine", "robots", "in turn, ms", "at once, ms", "batch, ms", "batch spares",
            title=f"{Path(reference).name} {shape[1]}x{shape[2]}, {threads} threads: median of a frame",
        )  # fmt: skip
        for row in _measured(content, shape, [int(count) for count in robots.split(",")], threads, rounds):
            table.add_row(
                row.engine, f"{row.robots}", f"{row.in_turn_ms:.1f}", f"{row.at_once_ms:.1f}", f"{row.batch_ms:.1f}",
                f"{100 * row.gain:+.0f} %",
            )  # fmt: skip
        Console().print(table)


def _measured(
    content: bytes, shape: tuple[int, int, int], counts: list[int], threads: int, rounds: int
) -> Iterator[_Row]:
    for name, prepare in _ENGINES.items():
        alone = prepare(content, threads)
        single = [prepare(content, 1) for _ in range(threads)]
        for count in counts:
            frames = np.random.default_rng(count).normal(size=(count, *shape)).astype(np.float32)
            batch = prepare(batched(content, count), threads)
            _check(batch(frames), _in_turn(alone, frames))
            ways = (partial(_in_turn, alone, frames), partial(_at_once, single, frames), partial(batch, frames))
            took_ms = [each / count for each in _medians(ways, rounds)]
            yield _Row(engine=name, robots=count, in_turn_ms=took_ms[0], at_once_ms=took_ms[1], batch_ms=took_ms[2])


def batched(content: bytes, count: int) -> bytes:
    """Turn an ONNX model of one image into one of ``count`` images; leading 1s of shapes become the batch size."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load_from_string(content)
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    made = {node.output[0]: node.attribute[0].t for node in graph.node if node.op_type == "Constant"}
    for node in graph.node:
        shape = {**made, **constants}.get(node.input[1]) if node.op_type == "Reshape" else None
        if shape is None:
            continue
        values = numpy_helper.to_array(shape).copy()
        if values.ndim == 1 and len(values) > 1 and values[0] == 1:
            values[0] = 0  # as in the input
            shape.CopyFrom(numpy_helper.from_array(values, shape.name))
            del node.attribute[:]  # allowzero would read a 0 as one
    del graph.value_info[:]
    for value in (*(each for each in graph.input if each.name not in constants), *graph.output):
        dims = value.type.tensor_type.shape.dim
        if len(dims):
            dims[0].Clear()
            dims[0].dim_value = count
    serialised: bytes = model.SerializeToString()
    return serialised


def _check(batch: list[NDArray[Any]], singles: list[list[NDArray[Any]]]) -> None:
    for index, output in enumerate(batch):
        expected = np.concatenate([single[index] for single in singles])
        if output.shape != expected.shape or np.abs(output - expected).max() > _SAME * np.abs(expected).max():
            raise ModelError("the model computes something else in batches: its file is of one image only")


def _in_turn(alone: Dense, frames: NDArray[np.float32]) -> list[list[NDArray[Any]]]:
    return [alone(frame[None]) for frame in frames]


def _at_once(single: list[Dense], frames: NDArray[np.float32]) -> None:
    """Compute each frame in one of the engines, every engine in a thread of its own."""

    def compute(index: int) -> None:
        for frame in frames[index :: len(single)]:
            single[index](frame[None])

    with ThreadPoolExecutor(len(single)) as pool:
        list(pool.map(compute, range(len(single))))


def _medians(ways: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Return the median milliseconds of each way, measured in turns."""
    took: list[list[float]] = [[] for _ in ways]
    for _ in range(_WARM + rounds):
        for way, values in zip(ways, took, strict=True):
            started = time.perf_counter()
            way()
            values.append(1e3 * (time.perf_counter() - started))
    return [float(np.median(values[_WARM:])) for values in took]


if __name__ == "__main__":
    typer.run(main)
