# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Work in strips as steps of the compiled program: to kernels on lists of pixels a part is a shorter list."""

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
"""What copies rows, by bytes of a value."""
_PIXEL_BYTES = ctypes.sizeof(ctypes.c_int32)  # of a list's entry


def in_strips(executable: Executable, encoded: Sequence[CStep]) -> tuple[list[tuple[int, CStep]], list[object]]:
    """The steps in the order in which they are run, each with the number of the plan's step whose work it does; and all
    that they point to.

    Args:
        encoded: the plan's steps, each as a whole.
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
        elif number in ends:  # what stands between the segment's steps fills sets, and depends on none of them
            encoder = StripEncoder(ends[number], whole, executable)
            order += encoder.steps()
            kept.append(encoder)
    return order, kept


class StripEncoder:
    """Encodes the work of one segment, and holds all that its steps point to."""

    def __init__(
        self,
        segment: Segment,
        whole: Mapping[str, tuple[int, Compute, CStep]],
        executable: Executable,
    ) -> None:
        """Encode nothing yet; ``whole``: by operator's output, its number, its computation, and the step for it."""
        self._kept: list[object] = []
        self._segment = segment
        self._whole = whole
        self._kernels = executable.kernels
        self._maps = executable.tensors.maps
        self._first = dict.fromkeys(segment.buffers, 0)  # line at which the buffer of a map begins
        self._moved: dict[tuple[object, ...], Structure] = {}

    def steps(self) -> Iterator[tuple[int, CStep]]:
        """In order, each with the number of the step whose work it does."""
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
        """Move what is kept, if anything, to the front of a buffer; from now on it begins at another line."""
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
        """Bytes from a buffer's first line back to where line 0 would lie; 0 for what is no buffer."""
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
        """The address of a set of the pixels of some lines."""
        width = active.size[1]
        listed = active.all_pixels.ctypes.data + lines.start * width * _PIXEL_BYTES
        part = CSet(active.mask.ctypes.data, listed, active.all_pixels.ctypes.data, *active.size, len(lines) * width, 0)
        self._kept.append(part)
        return ctypes.addressof(part)
