# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The work of a frame's launches without a GPU: bytes, products and programs of each step.

It follows :mod:`cacheinf_ros.engine.gpu.triton_executor` launch by launch, and does not import it, nor Triton.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from cacheinf_ros.engine.delta_threshold import Criterion, DeltaThreshold
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.plan import Plan
from cacheinf_ros.engine.execution.steps import (
    Call,
    Compute,
    Difference,
    FillIfAny,
    Poison,
    Propagate,
    Step,
    Union,
)
from cacheinf_ros.engine.gpu.pixel_launch import Tiles, columns_of, masked_pixels, product_depth
from cacheinf_ros.engine.layout import Layout
from cacheinf_ros.graph.ir import Conv, Global, GlobalMean, Operator, Pool
from cacheinf_ros.graph.window import Window

FLOAT32_BYTES = 4
"""The bytes of a value outside of feature maps; a map's values have its layout's size, and weights the input's."""
_LISTED_BYTES = 4  # bytes per pixel in a list


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One kernel, or a copy or memset between kernels.

    Attributes:
        what: the step that it belongs to, in one word.
        moved: bytes read and written, each counted once.
        products: multiplications and additions on Tensor Cores, including what tiles compute beyond the operator.
        arithmetic: multiplications and additions on other cores.
        programs: number of programs with work; all take equally long.
        grid: number of all programs: those that find no work exit.
        most_per_multiprocessor: most programs of the grid that are started per multiprocessor, which then take blocks
            in turn; None: all are started.
    """

    what: str
    moved: int
    products: int = 0
    arithmetic: int = 0
    programs: int
    grid: int
    most_per_multiprocessor: int | None = None


def listed_sets(plan: Plan) -> frozenset[ActiveSet]:
    """Return the sets whose pixels some step computes, so that they are listed; the others are masks."""
    return frozenset(step.active for step in plan.steps if isinstance(step, Compute))


def entering_sets(plan: Plan) -> tuple[ActiveSet, ...]:
    """Return the sets that steps read and no step fills: they are uploaded, and listed on the device."""
    filled = {target for step in plan.steps for target in _filled(step)}
    return tuple(dict.fromkeys(each for step in plan.steps for each in _read(step) if each not in filled))


def launches(plan: Plan, layout: Layout) -> int:
    """Count the launches of a frame's graph, which do not depend on what is active; an ATen call counts as one.

    In addition, before the graph come a memset of all sets, one of the flags, and the copies of the input.
    """
    return len(plan_work(plan, layout, defaultdict(int)))


def plan_work(
    plan: Plan, layout: Layout, counts: Mapping[ActiveSet, int], tiles: Tiles | None = None, cameras: int = 1
) -> list[Launch]:
    """Return the launches of a frame's graph, in order, as many as :func:`launches` says.

    Args:
        counts: for each set of the plan, the number of each camera's active pixels.
        tiles: tiles of the kernels; None: those for a GPU.
        cameras: number of cameras computed in one pass, each with as much to do. Only global operators are launched for
            each camera.
    """
    listed = listed_sets(plan)
    tiles = tiles or Tiles.of_floats(layout.spec(layout.graph.input).floats)
    found = [_set_work("list", each, each.pixels, counts, {each}, cameras) for each in entering_sets(plan)]
    for step in plan.steps:
        found += _step_work(step, layout, counts, listed, tiles, cameras)
    return found


def frame_work(plan: Plan, layout: Layout, changed: int) -> list[Launch]:
    """Return the launches that compare a frame of the input's size on the device: a memset, a kernel, a mask's copy.

    The frame's cache map is assumed to mark only what changed; for other pixels nothing but the map is read.
    """
    image, pixels = layout.spec(layout.graph.input), plan.input.pixels
    # the bytes are those of the map, of the frame and the composed image, and of the last seen levels, read and written
    moved = pixels + changed * image.channels * (4 + image.value_bytes)
    return [_even("memset", FLOAT32_BYTES, 1), _even("frame", moved, pixels), _even("copy", 2 * pixels, pixels)]


def operator_work(operator: Operator, layout: Layout, active: int, tiles: Tiles, cameras: int = 1) -> Launch:
    """Return the work of computing ``active`` pixels of an operator's output, for each camera."""
    out = layout.spec(operator.output)
    if isinstance(operator, Conv) and not operator.is_depthwise:
        return _product_work(operator, layout, active, tiles, cameras)
    moved = active * (out.value_bytes * out.channels + _LISTED_BYTES) + _read_bytes(operator, layout, active)
    columns = columns_of(out.channels, tiles)
    blocks = -(-out.channels // columns)
    used = -(-cameras * active // tiles.pixels) * blocks
    taps = math.prod(operator.window.kernel) if isinstance(operator, (Conv, Pool)) else 1
    return Launch(
        what=type(operator).__name__,
        moved=cameras * moved,
        arithmetic=2 * taps * used * tiles.pixels * columns,
        programs=used,
        grid=-(-cameras * out.pixels // tiles.pixels) * blocks,
    )


def aten_work(operator: Global, layout: Layout, value_bytes: int = FLOAT32_BYTES) -> Launch:
    """Return the work of a global operator: whatever it computes, it reads its inputs and writes its output.

    Args:
        value_bytes: bytes of a value of inputs and output.
    """
    output = _values(layout, operator.output)
    inputs = sum(_values(layout, name) for name in operator.inputs)
    return _even("call", value_bytes * (inputs + output), output)


def _product_work(op: Conv, layout: Layout, active: int, tiles: Tiles, cameras: int) -> Launch:
    """Return the work of an implicit matrix product in tiles of pixels x columns, its depth in powers of two.

    Cameras share the tiles and the weights.
    """
    outputs, inputs = op.weight.shape[0] // op.groups, op.weight.shape[1]
    taps, columns = math.prod(op.window.kernel), columns_of(outputs, tiles)
    blocks = -(-outputs // columns) * op.groups
    used = -(-cameras * active // tiles.pixels) * blocks
    source, *residual = (layout.spec(name).value_bytes for name in op.inputs)
    by_tap, piece = product_depth(inputs, taps, tiles, layout.spec(layout.graph.input).value_bytes)
    depth = taps * _padded(inputs, piece) if by_tap else _padded(taps * inputs, piece)
    moved = cameras * _LISTED_BYTES * active
    if active:
        moved += source * (op.weight.numel() + cameras * read_pixels(op.window, active) * inputs * op.groups)
        moved += cameras * active * op.weight.shape[0] * (layout.spec(op.output).value_bytes + sum(residual))
    return Launch(
        what="Conv",
        moved=moved,
        products=2 * used * tiles.pixels * columns * depth,
        programs=used,
        grid=-(-cameras * math.prod(op.window.out_size) // tiles.pixels) * blocks,
        most_per_multiprocessor=tiles.most_per_multiprocessor,
    )


def read_pixels(window: Window, active: int) -> int:
    """Estimate how many input pixels are read for active output pixels that lie together, about as a square.

    The estimate never exceeds the taps of all of them, nor the input's pixels; some pixels of the padding are counted.
    """
    side = math.sqrt(active)
    spans = [
        max(0.0, side - 1) * stride + (kernel - 1) * dilation + 1
        for stride, kernel, dilation in zip(window.stride, window.kernel, window.dilation, strict=True)
    ]
    most = min(math.prod(window.in_size), math.prod(window.kernel) * active)
    return min(most, math.ceil(math.prod(spans)))


def _read_bytes(operator: Operator, layout: Layout, active: int) -> int:
    """Return the bytes read of all inputs, and of a depthwise convolution's weights, which are float32."""
    if not active:
        return 0
    found = FLOAT32_BYTES * operator.weight.numel() if isinstance(operator, Conv) else 0
    for position, name in enumerate(operator.inputs):
        spec = layout.spec(name)
        if isinstance(operator, (Conv, Pool)) and position == 0:
            pixels = read_pixels(operator.window, active)
        elif isinstance(operator, GlobalMean):
            pixels = spec.pixels
        else:  # where it is resampled, a few neighbours are read too: most of them are read for other pixels anyway
            pixels = min(active, spec.pixels)
        found += spec.value_bytes * pixels * spec.channels
    return found


def _step_work(
    step: Step,
    layout: Layout,
    counts: Mapping[ActiveSet, int],
    listed: Collection[ActiveSet],
    tiles: Tiles,
    cameras: int,
) -> list[Launch]:
    match step:
        case Propagate():
            return [_set_work("propagate", step.target, step.source.pixels, counts, listed, cameras)]
        case Union():
            return [_set_work("union", step.target, 2 * step.target.pixels, counts, listed, cameras)]
        case Difference():
            return [_set_work("difference", step.target, 2 * step.target.pixels, counts, listed, cameras)]
        case FillIfAny():
            return [_set_work("fill", step.target, _LISTED_BYTES, counts, listed, cameras)]
        case Call():
            return _call_work(step, layout, counts, listed, cameras)
        case Poison():
            maps = [(_values(layout, name), layout.spec(name).value_bytes) for name in step.maps]
            return [_even("poison", cameras * value_bytes * size, cameras * size) for size, value_bytes in maps]
    assert isinstance(step, Compute), "what machines share is executed step by step"
    active = counts[step.active]
    work = operator_work(step.operator, layout, active, tiles, cameras)
    if step.delta is None:
        return [work]
    changed = counts[step.changed]
    return [work, *_commit_work(step.delta, layout, step.operator.output, active, changed, tiles, cameras)]


def _set_work(
    what: str,
    target: ActiveSet,
    read: int,
    counts: Mapping[ActiveSet, int],
    listed: Collection[ActiveSet],
    cameras: int,
) -> Launch:
    """Return the work on a set: masks are read, a byte per pixel is written, and a list gets four per active pixel."""
    moved = read + target.pixels + (_LISTED_BYTES * counts[target] if target in listed else 0)
    return _even(what, cameras * moved, cameras * target.pixels)


def _commit_work(
    delta: DeltaThreshold, layout: Layout, output: str, active: int, changed: int, tiles: Tiles, cameras: int
) -> list[Launch]:
    """Return the work of comparing what was computed with the map, and of writing there what changed."""
    spec = layout.spec(output)
    active, changed, pixels = cameras * active, cameras * changed, cameras * spec.pixels
    used = -(-active // tiles.pixels)
    grid, arithmetic = -(-pixels // tiles.pixels), 3 * used * tiles.pixels * spec.channels
    pixel_bytes = spec.value_bytes * spec.channels
    read, flags = 2 * pixel_bytes * active, (1 + _LISTED_BYTES) * (active + changed)
    moved = read + pixel_bytes * changed + flags
    commit = Launch(what="commit", moved=moved, arithmetic=arithmetic, programs=used, grid=grid)
    if delta.criterion is not Criterion.POOLED_ENERGY:
        return [commit]
    empty = _even("memset", FLOAT32_BYTES * pixels, pixels)
    return [empty, Launch(what="squares", moved=read, arithmetic=arithmetic, programs=used, grid=grid), commit]


def _call_work(
    step: Call, layout: Layout, counts: Mapping[ActiveSet, int], listed: Collection[ActiveSet], cameras: int
) -> list[Launch]:
    """Return the work of a call, in every frame and for each camera, whether it is due or not.

    What it returns is compared where it is a map.

    Maps that are kept in 16 bits are widened to float32 for the call.
    """
    call, output = aten_work(step.operator, layout), _values(layout, step.operator.output)
    narrow = [n for n in step.operator.inputs if n in layout.maps and layout.spec(n).value_bytes < FLOAT32_BYTES]
    widened = [
        _even("widen", (FLOAT32_BYTES + layout.spec(name).value_bytes) * _values(layout, name), _values(layout, name))
        for name in narrow
    ]
    if step.operator.output not in layout.maps:
        return [*cameras * [*widened, call], _set_work("fill", step.changed, _LISTED_BYTES, counts, listed, cameras)]
    value_bytes = layout.spec(step.operator.output).value_bytes
    copy = _even("copy", (FLOAT32_BYTES + value_bytes) * output, output)
    return [*cameras * [*widened, call, copy], _even("commit", cameras * 3 * value_bytes * output, cameras * output)]


def _filled(step: Step) -> Sequence[ActiveSet]:
    if isinstance(step, (Propagate, Union, Difference, FillIfAny)):
        return (step.target,)
    return (step.changed,) if isinstance(step, (Call, Compute)) and step.changed not in _read(step) else ()


def _read(step: Step) -> Sequence[ActiveSet]:
    match step:
        case Propagate() | FillIfAny():
            return (step.source,)
        case Union():
            return step.first, step.second
        case Difference():
            return step.source, step.without
        case Compute():
            return (step.active,)
        case Call():
            return step.inputs
    return ()


def _even(what: str, moved: int, values: int) -> Launch:
    """Return a launch whose programs all do the same with equally many values."""
    programs = max(1, -(-values // masked_pixels(values)))
    return Launch(what=what, moved=moved, programs=programs, grid=programs)


def _values(layout: Layout, name: str) -> int:
    return math.prod(layout.graph.tensors[name].shape if name in layout.graph.tensors else layout.spec(name).shape)


def _padded(count: int, piece: int) -> int:
    return -(-count // piece) * piece
