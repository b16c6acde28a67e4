# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Results as messages, and their topics: one message per accepted image, and pictures for those who subscribe."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from std_msgs.msg import Header

from cacheinf_ros import msg
from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine import Box, Decoded, ScoredClass, Selection
from cacheinf_ros.engine.decoders import WHOLE
from cacheinf_ros.engine.following import move_output
from cacheinf_ros.engine.frame_placement import picture_within
from cacheinf_ros.graph import ModelCard
from cacheinf_ros.nodes.conversions import byte_array
from cacheinf_ros.nodes.image_messages import LazyImage
from cacheinf_ros.nodes.shape_messages import shape_fields, shapes_from
from cacheinf_ros.nodes.topics import profile, publish_on
from cacheinf_ros.nodes.vision_messages import HAS_VISION_MSGS, VisionTopics
from cacheinf_ros.pipeline.frame_result import FrameResult
from cacheinf_ros.pipeline.node_configs import Outputs, ResultConfig
from cacheinf_ros.pipeline.result_overlay import draw_instances, draw_result

_DEPTH = 10
_CAPTION_CLASSES = 3
_OUTPUT_TYPES = frozenset(
    ("bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
)


def result_message(
    header: Header, result: FrameResult, max_output_bytes: int, *, decoded_only: bool = False
) -> msg.InferenceResult:
    """Convert a result to a message, with its outputs moved to the frame; outputs that are left out have size 0.

    Args:
        header: the header of the image.
        result: the model's answer.
        max_output_bytes: the limit for all outputs together; those beyond it are left out.
        decoded_only: whether to leave out all outputs that a decoder has read.
    """
    engine = result.engine
    blobs: list[bytes] = []
    room = 0 if decoded_only and result.decoded is not None and result.decoded.is_certain else max_output_bytes
    for output in engine.outputs.values():
        blobs.append(_in_frame(output, result).tobytes() if output.nbytes <= room else b"")
        room -= len(blobs[-1])
    shapes = [output.shape for output in engine.outputs.values()]
    return msg.InferenceResult(
        header=header,
        model=result.model,
        mode=result.mode,
        where=engine.where,
        error=result.error,
        reuse_ratio=engine.reuse_ratio,
        active_share=engine.active_share,
        stage_names=list(engine.stage_ms),
        stage_ms=list(engine.stage_ms.values()),
        output_names=list(engine.outputs),
        output_dtypes=[str(output.dtype) for output in engine.outputs.values()],
        output_ranks=[len(shape) for shape in shapes],
        output_shapes=[size for shape in shapes for size in shape],
        output_sizes=[len(blob) for blob in blobs],
        data=byte_array(b"".join(blobs)),
        variant=result.variant,
        why=result.why,
        **_decoded_fields(result.decoded),
    )


def _in_frame(output: NDArray[Any], result: FrameResult) -> NDArray[Any]:
    motion = result.engine.motion
    return output if motion.is_none else move_output(output, motion, result.input_size)


def _decoded_fields(decoded: Decoded | None) -> dict[str, Any]:
    if decoded is None:
        return {}
    classes, boxes = decoded.classes, decoded.boxes
    has_shapes = any(box.key_points or box.outlines for box in boxes)
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
        **(shape_fields(boxes) if has_shapes else {}),
    }


def outputs_from(message: msg.InferenceResult) -> dict[str, NDArray[Any]]:
    """Return the outputs in a result message, without those that were left out.

    Raises:
        ValueError: the message contradicts itself, or names a type that no output has.
        TypeError: a size does not fit the type that is named.
    """
    outputs, data, at, shape_at = {}, np.frombuffer(message.data, np.uint8), 0, 0
    for name, dtype, rank, size in zip(
        message.output_names, message.output_dtypes, message.output_ranks, message.output_sizes, strict=True
    ):
        if dtype not in _OUTPUT_TYPES:  # numpy's own parser of dtypes fails in many ways on untrusted text
            raise ValueError(f"{dtype!r} is no type of an output: one of {', '.join(sorted(_OUTPUT_TYPES))}")
        shape = tuple(message.output_shapes[shape_at : shape_at + rank])
        if size:
            outputs[name] = data[at : at + size].view(dtype).reshape(shape)
        at, shape_at = at + size, shape_at + rank
    return outputs


def with_wanted_outputs(message: msg.InferenceResult, config: ResultConfig, *, are_told: bool) -> msg.InferenceResult:
    """Remove the outputs from a server's result message where the user does not want them, or not as many bytes.

    Their names and shapes stay.

    Args:
        are_told: whether classes and boxes say all that the outputs do.
    """
    most = 0 if are_told and config.outputs is Outputs.DECODED else config.max_output_bytes
    if len(message.data) > most:
        message.data = byte_array(b"")
        message.output_sizes = [0] * len(message.output_names)
    return message


def with_decoded(message: msg.InferenceResult, decoded: Decoded) -> msg.InferenceResult:
    """Replace the classes and boxes of a result message."""
    for name, values in {**shape_fields(()), **_decoded_fields(decoded)}.items():
        setattr(message, name, values)
    return message


def decoded_from(message: msg.InferenceResult) -> Decoded:
    """Return the classes, and the boxes with their shapes, of a result message; class maps are not sent."""
    classes = zip(message.class_ids, message.class_names, message.class_scores, strict=True)
    boxes = zip(
        message.box_x, message.box_y, message.box_width, message.box_height,
        message.box_class_ids, message.box_class_names, message.box_scores, shapes_from(message), strict=True,
    )  # fmt: skip
    found = [
        Box(x=x, y=y, width=w, height=h, class_id=i, name=name, score=score, key_points=points, outlines=outlines)
        for x, y, w, h, i, name, score, (points, outlines) in boxes
    ]
    scored = [ScoredClass(id=i, name=name, score=score) for i, name, score in classes]
    return Decoded(classes=tuple(scored), boxes=tuple(found), class_map=None)


class ResultTopics:
    """The topics ``~/result``, pictures of the result, and those of vision_msgs where it is installed."""

    def __init__(self, node: Node, config: ResultConfig, card: ModelCard) -> None:
        self._result = publish_on(node, msg.InferenceResult, config.result_topic, profile(_DEPTH))
        self._card = card
        self._region = WHOLE
        self._overlay = LazyImage(node, "~/overlay")
        self._class_map = LazyImage(node, "~/class_map")
        self._instances = LazyImage(node, "~/instances")
        self._vision = VisionTopics(node, card) if HAS_VISION_MSGS else None

    def subscribers(self) -> int:
        """Return how many subscribers results have."""
        return self._result.get_subscription_count()

    def select(self, selection: Selection) -> None:
        """Set which answers are reported from now on."""
        self._region = selection.region
        if self._vision is not None:
            self._vision.tell_labels(selection)

    def publish(self, result: msg.InferenceResult) -> None:
        """Publish a result."""
        self._result.publish(result)

    def illustrate(
        self,
        result: msg.InferenceResult,
        image: NDArray[np.uint8],
        cache_map: CacheMap | None,
        decoded: Decoded | None,
    ) -> None:
        """Publish the result's other forms to those who subscribe to them."""
        if self._overlay.is_wanted:
            lines, pictures = _caption(result), self._card.pictures
            drawn = draw_result(image, cache_map, lines, decoded, self._region, pictures)
            self._overlay.publish(result.header, drawn)
        if decoded is not None and decoded.class_map is not None and self._class_map.is_wanted:
            self._class_map.publish(result.header, decoded.class_map)
        if decoded is not None and any(box.outlines for box in decoded.boxes) and self._instances.is_wanted:
            size = picture_within((image.shape[0], image.shape[1]), self._card)
            self._instances.publish(result.header, draw_instances(size, decoded.boxes))
        if decoded is not None and self._vision is not None:
            self._vision.publish(result.header, decoded)


def _caption(result: msg.InferenceResult) -> list[str]:
    total = sum(result.stage_ms)
    lines = [f"{result.mode} ({result.where}): reuse {result.reuse_ratio:.2f}, {total:.0f} ms"]
    best = zip(result.class_names, result.class_scores, strict=True)
    lines += [f"{name} {score:.2f}" for name, score in best][:_CAPTION_CLASSES]
    return [*lines, result.error] if result.error else lines
