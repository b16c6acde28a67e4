# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Results <-> messages."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from std_msgs.msg import Header

from cacheinf_ros import msg
from cacheinf_ros.engine import Box, Decoded, ScoredClass
from cacheinf_ros.engine.following import move_output
from cacheinf_ros.nodes.conversions import byte_array
from cacheinf_ros.nodes.shape_messages import shape_fields, shapes_from
from cacheinf_ros.pipeline.frame_result import FrameResult


def result_message(
    header: Header, result: FrameResult, max_output_bytes: int, *, decoded_only: bool = False
) -> msg.InferenceResult:
    """A result; the outputs in it are led to the frame, those that are left out have size 0.

    Args:
        header: of the image.
        result: what the model says.
        max_output_bytes: outputs beyond so many bytes in all are left out.
        decoded_only: leave out all outputs that a decoder has read.
    """
    names = list(result.outputs)
    blobs: list[bytes] = []
    room = 0 if decoded_only and result.decoded is not None and result.decoded.is_certain else max_output_bytes
    for output in result.outputs.values():
        blobs.append(_in_frame(output, result).tobytes() if output.nbytes <= room else b"")
        room -= len(blobs[-1])
    shapes = [output.shape for output in result.outputs.values()]
    return msg.InferenceResult(
        header=header,
        model=result.model,
        mode=result.mode,
        where=result.where,
        error=result.error,
        reuse_ratio=result.reuse_ratio,
        active_share=result.active_share,
        stage_names=list(result.stage_ms),
        stage_ms=list(result.stage_ms.values()),
        output_names=names,
        output_dtypes=[str(output.dtype) for output in result.outputs.values()],
        output_ranks=[len(shape) for shape in shapes],
        output_shapes=[size for shape in shapes for size in shape],
        output_sizes=[len(blob) for blob in blobs],
        data=byte_array(b"".join(blobs)),
        variant=result.variant,
        why=result.why,
        **_decoded_fields(result.decoded),
    )


def _in_frame(output: NDArray[Any], result: FrameResult) -> NDArray[Any]:
    if result.motion.is_none:
        return output
    return move_output(output, result.motion, result.input_size)


def _decoded_fields(decoded: Decoded | None) -> dict[str, Any]:
    if decoded is None:
        return {}
    classes, boxes = decoded.classes, decoded.boxes
    return {
        "class_ids": [c.id for c in classes],
        "class_names": [c.name for c in classes],
        "class_scores": [c.score for c in classes],
        "box_x": [b.x for b in boxes],
        "box_y": [b.y for b in boxes],
        "box_width": [b.width for b in boxes],
        "box_height": [b.height for b in boxes],
        "box_class_ids": [b.class_id for b in boxes],
        "box_class_names": [b.name for b in boxes],
        "box_scores": [b.score for b in boxes],
        **shape_fields(boxes),
    }


def outputs_from(message: msg.InferenceResult) -> dict[str, NDArray[Any]]:
    """The outputs in a result message, without those that were left out."""
    outputs, data, at, shape_at = {}, np.frombuffer(message.data, np.uint8), 0, 0
    for name, dtype, rank, size in zip(
        message.output_names, message.output_dtypes, message.output_ranks, message.output_sizes, strict=True
    ):
        shape = tuple(message.output_shapes[shape_at : shape_at + rank])
        if size:
            outputs[name] = data[at : at + size].view(dtype).reshape(shape)
        at, shape_at = at + size, shape_at + rank
    return outputs


def without_outputs(message: msg.InferenceResult) -> msg.InferenceResult:
    """Leave the outputs out of a result; their names and shapes stay."""
    message.data = byte_array(b"")
    message.output_sizes = [0] * len(message.output_names)
    return message


def with_decoded(message: msg.InferenceResult, decoded: Decoded) -> msg.InferenceResult:
    """Have a result say other classes and boxes."""
    for name, values in _decoded_fields(decoded).items():
        setattr(message, name, values)
    return message


def decoded_from(message: msg.InferenceResult) -> Decoded:
    """Classes, and boxes with their shapes, of a result message; class maps are not sent."""
    classes = zip(message.class_ids, message.class_names, message.class_scores, strict=True)
    boxes = zip(
        message.box_x, message.box_y, message.box_width, message.box_height,
        message.box_class_ids, message.box_class_names, message.box_scores, shapes_from(message), strict=True,
    )  # fmt: skip
    return Decoded(
        classes=tuple(ScoredClass(id=i, name=name, score=score) for i, name, score in classes),
        boxes=tuple(
            Box(x=x, y=y, width=w, height=h, class_id=i, name=name, score=score, key_points=points, outlines=outlines)
            for x, y, w, h, i, name, score, (points, outlines) in boxes
        ),
        class_map=None,
    )
