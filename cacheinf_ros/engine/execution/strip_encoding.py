# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Encodes work in strips as steps of the compiled program; kernels take a strip as a shorter list of pixels."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from ctypes import Structure

from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.executable import Executable
from cacheinf_ros.engine.execution.steps import Compute
from cacheinf_ros.engine.execution.strips import Part, Segment, Slide
from cacheinf_ros.engine.kernels.abi import (
    NEVER,
    BFloat16KernelKind,
    CSelect,
    CSet,
    CStep,
    Int8KernelKind,
    KernelKind,
    StepKind,
)
from cacheinf_ros.engine.kernels.moved_inputs import with_moved_inputs
from cacheinf_ros.engine.kernels.prepared import NativeCall

_COPIES = {4: KernelKind.SELECT, 2: BFloat16KernelKind.SELECT_BFLOAT16, 1: Int8KernelKind.SELECT_INT8}
"""The kernel that copies rows, by the bytes of a value."""
_PIXEL_BYTES = ctypes.sizeof(ctypes.c_int32)  # of one entry in a list of pixels


def in_strips(executable: Executable, encoded: Sequence[CStep]) -> tuple[list[tuple[int, CStep]], list[object]]:
    """Return the steps in the order in which they are run, and the objects that they point to.

    Each step comes with the number of the plan's step whose work it does.

    Args:
        executable: the plan's steps, and the segments that are executed in strips.
        encoded: the plan's steps, each encoded as a whole.
    """
    whole = {
        step.operator.output: (number, step, encoded[number])
        for number, step in enumerate(executable.steps)
        if isinstance(step, Compute)
    }
    ends = {whole[segment.outputs[-1]][0]: segment for segment in executable.segments}
    inside = {whole[output][0] for segment in executable.segments for output in segment.outputs}
    order: list[tuple[int, CStep]] = []
    kept: list[object] = []
    for number, step in enumerate(encoded):
        if number not in inside:
            order.append((number, step))
        elif number in ends:  # other steps in between only fill sets, and depend on none of the segment's
            encoder = StripEncoder(ends[number], whole, executable)
            order += encoder.steps()
            kept.append(encoder)
    return order, kept


class StripEncoder:
    """Encodes the work of one segment, and keeps alive all that its steps point to."""

    def __init__(
        self,
        segment: Segment,
        whole: Mapping[str, tuple[int, Compute, CStep]],
        executable: Executable,
    ) -> None:
        """Encode nothing yet.

        Args:
            segment: the operators that are computed in strips.
            whole: by operator's output, the number of the plan's step, the step, and its encoding as a whole.
            executable: what is executed.
        """
        self._kept: list[object] = []
        self._segment = segment
        self._whole = whole
        self._kernels = executable.kernels
        self._maps = executable.tensors.maps
        self._first = dict.fromkeys(segment.buffers, 0)  # the line of a map at which its buffer begins
        self._moved: dict[tuple[object, ...], Structure] = {}

    def steps(self) -> Iterator[tuple[int, CStep]]:
        """Yield the encoded steps in order, each with the number of the plan's step whose work it does."""
        writers = {self._segment.lies_in.get(output, output): output for output in self._segment.outputs}
        for work in self._segment.work:
            if isinstance(work, Slide):
                number, writer, _ = self._whole[writers[work.map]]
                yield from ((number, step) for step in self._slide(work, writer))
            else:
                yield self._whole[work.output][0], self._part(work)

    def _part(self, part: Part) -> CStep:
        _, computation, whole = self._whole[part.output]
        step = CStep.from_buffer_copy(whole)
        step.first, step.second = self._lines(computation.active, part.lines), computation.active.address
        step.target = None
        step.out += self._distance(part.output)
        kernel, distances = self._kernels[part.output], [self._distance(name) for name in computation.operator.inputs]
        step.params = self._params(part.output, kernel.call, distances)
        if kernel.alternative is not None:
            step.alternative_params = self._params(part.output, kernel.alternative, distances)
        return step

    def _slide(self, slide: Slide, writer: Compute) -> Iterator[CStep]:
        """Let a buffer begin at another line of its map, and yield the step that moves its kept lines, if any."""
        buffer, before = self._maps[slide.map], self._distance(slide.map)
        self._first[slide.map] = slide.lines.start
        if not slide.lines:
            return
        pixels = buffer.pixels
        pitch, channels, value_bytes = pixels.stride(0), pixels.shape[1], pixels.element_size()
        params = CSelect(channels=channels, in_pitch=pitch, **{"in": pixels.data_ptr() + before})
        self._kept.append(params)
        yield CStep(
            kind=StepKind.COMPUTE,
            kernel=int(_COPIES[value_bytes]),
            params=ctypes.addressof(params),
            first=self._lines(writer.active, slide.lines),
            second=writer.active.address,
            out=pixels.data_ptr() + self._distance(slide.map),
            pitch=pitch,
            channels=channels,
            alternative_from=NEVER,
            value_bytes=value_bytes,
        )

    def _distance(self, name: str) -> int:
        """Return the bytes, at most 0, from a buffer's start to where line 0 would lie; 0 where there is no buffer."""
        root = self._segment.lies_in.get(name)
        if root is None:
            return 0
        buffer = self._maps[root]
        return -self._first[root] * buffer.size[1] * buffer.pixels.stride(0) * buffer.pixels.element_size()

    def _params(self, output: str, call: NativeCall | None, distances: list[int]) -> int:
        assert call is not None
        key = output, call.kind, *distances
        if key not in self._moved:
            self._moved[key] = with_moved_inputs(call.params, distances)
        return ctypes.addressof(self._moved[key])

    def _lines(self, active: ActiveSet, lines: range) -> int:
        """Return the address of a set that holds the pixels of some lines."""
        width = active.size[1]
        listed = active.all_pixels.ctypes.data + lines.start * width * _PIXEL_BYTES
        part = CSet(active.mask.ctypes.data, listed, active.all_pixels.ctypes.data, *active.size, len(lines) * width, 0)
        self._kept.append(part)
        return ctypes.addressof(part)
