"""Messages <-> values: every conversion between ROS and the rest of the package is here."""

from __future__ import annotations

import contextlib
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from numpy.typing import NDArray
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from cacheinf_ros import msg
from cacheinf_ros.cache_map import CacheMap, Motion, grid_shape
from cacheinf_ros.errors import CacheinfError, MessageError
from cacheinf_ros.matching.chain import Link
from cacheinf_ros.nodes.health import Status
from cacheinf_ros.offload import Packet
from cacheinf_ros.sources import decode_compressed, decode_image

if TYPE_CHECKING:
    from cacheinf_ros.engine import Decoded

try:
    from cv_bridge import CvBridge, CvBridgeError
except (ImportError, AttributeError):  # AttributeError: a ROS 1 port on a new numpy
    CvBridge = CvBridgeError = None

_NS_PER_S = 1_000_000_000
Pixels = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameResult:
    """What the model says about one frame; see msg/InferenceResult.msg for the meaning of each field."""

    model: str
    mode: str
    where: str = "local"
    error: str = ""
    reuse_ratio: float = 0.0
    active_share: float = 0.0
    stage_ms: dict[str, float] = field(default_factory=dict)
    outputs: dict[str, NDArray[Any]] = field(default_factory=dict)
    motion: Motion = field(default_factory=Motion.none)  # outputs -> frame, in pixels of the model's input
    input_size: tuple[int, int] = (1, 1)
    decoded: Decoded | None = None
    variant: str = ""
    why: str = ""


def stamp_ns(header: Header) -> int:
    """The header's stamp in nanoseconds."""
    return int(header.stamp.sec) * _NS_PER_S + int(header.stamp.nanosec)


def time_message(stamp: int) -> Time:
    """A stamp in nanoseconds as message."""
    return Time(sec=stamp // _NS_PER_S, nanosec=stamp % _NS_PER_S)


def image_size(message: Image | CompressedImage) -> tuple[int, int]:
    """(height, width) that the message claims, at least 1 x 1: also for messages that cannot be decoded."""
    return max(1, getattr(message, "height", 1)), max(1, getattr(message, "width", 1))


def image_from(message: Image | CompressedImage) -> Pixels:
    """uint8 [height, width, 3], BGR, not to be written to; :class:`MessageError` where there is no picture in it."""
    if isinstance(message, CompressedImage):
        return decode_compressed(message.data, message.format)
    if CvBridge is not None:
        with contextlib.suppress(CvBridgeError, ValueError, TypeError, cv2.error):
            return np.asarray(CvBridge().imgmsg_to_cv2(message, "bgr8"), np.uint8)
    # also where cv_bridge fails: it refuses 8UC3, and our message says what is wrong
    return decode_image(
        message.encoding, message.height, message.width, message.step, message.data, bool(message.is_bigendian)
    )


def image_message(header: Header, image: Pixels) -> Image:
    """A raw image: uint8 [height, width, 3] as bgr8, [height, width] as mono8."""
    height, width = image.shape[:2]
    channels = image.shape[2] if image.ndim == 3 else 1
    return Image(
        header=header,
        height=height,
        width=width,
        encoding="bgr8" if channels == 3 else "mono8",
        step=width * channels,
        data=_bytes(image),
    )


def compressed_message(header: Header, image: Pixels, quality: int = 90) -> CompressedImage:
    """A JPEG image of uint8 [height, width, 3], BGR."""
    return CompressedImage(header=header, format="jpeg", data=_array(encode("jpeg", image, quality)))


def encode(wire: str, image: Pixels, quality: int) -> bytes:
    """A picture file of format "png" or "jpeg"."""
    # fastest compression: a robot's link is rarely so slow that the last 10 % of size pay for four times the time
    options = [cv2.IMWRITE_JPEG_QUALITY, quality] if wire == "jpeg" else [cv2.IMWRITE_PNG_COMPRESSION, 1]
    done, data = cv2.imencode(f".{wire}", image, options)
    if not done:
        raise MessageError(f"an image of shape {image.shape} cannot be encoded as {wire}")
    return data.tobytes()


def cache_map_message(header: Header, link: Link) -> msg.CacheMap:
    """A cache map and its place in the chain."""
    cache_map = link.cache_map
    x, y, width, height = (
        array("i", np.ascontiguousarray(column, np.int32).tobytes()) for column in cache_map.rectangles.T
    )
    return msg.CacheMap(
        header=header,
        session=link.session,
        sequence=link.sequence,
        reference_sequence=link.reference_sequence,
        reference_stamp=time_message(link.reference_stamp_ns),
        motion=cache_map.motion.matrix.ravel(),
        height=cache_map.image_size[0],
        width=cache_map.image_size[1],
        block_size=cache_map.block_size,
        reusable=_bytes(np.packbits(cache_map.reusable)),
        rect_x=x,
        rect_y=y,
        rect_width=width,
        rect_height=height,
        reuse_ratio=cache_map.reuse_ratio,
        matcher=link.matcher,
        reason=cache_map.reason,
        field=[] if cache_map.field is None else array("h", np.ascontiguousarray(cache_map.field).tobytes()),
        matching_ms=link.matching_ms,
    )


def link_from(message: msg.CacheMap) -> Link:
    """The value of a cache map message; :class:`MessageError` where it contradicts itself."""
    try:
        return Link(
            session=message.session,
            sequence=message.sequence,
            reference_sequence=message.reference_sequence,
            stamp_ns=stamp_ns(message.header),
            reference_stamp_ns=int(message.reference_stamp.sec) * _NS_PER_S + message.reference_stamp.nanosec,
            cache_map=_cache_map_from(message),
            matcher=message.matcher,
            matching_ms=message.matching_ms,
        )
    except (CacheinfError, ValueError) as error:
        raise MessageError(f"cache map {message.sequence} of {message.session!r} is unusable: {error}") from None


def _cache_map_from(message: msg.CacheMap) -> CacheMap:
    size = (message.height, message.width)
    rows, columns = grid_shape(size, message.block_size)
    packed = np.frombuffer(message.reusable, np.uint8)
    if packed.size != -(-rows * columns // 8):
        raise MessageError(f"{packed.size} bytes of reusable bits for {rows} x {columns} blocks")
    return CacheMap(
        image_size=size,
        block_size=message.block_size,
        reusable=np.unpackbits(packed, count=rows * columns).reshape(rows, columns).astype(np.bool_),
        motion=Motion(matrix=np.array(message.motion, np.float64).reshape(3, 3)),
        rectangles=_rectangles_from(message),
        reason=message.reason,
        field=_field_from(message, rows, columns),
    )


def _field_from(message: msg.CacheMap, rows: int, columns: int) -> NDArray[np.int16] | None:
    if not len(message.field):
        return None
    values = np.frombuffer(message.field, np.int16)
    if values.size != rows * columns * 2:
        raise MessageError(f"a field of {values.size} numbers for {rows} x {columns} blocks")
    return values.reshape(rows, columns, 2)


def _rectangles_from(message: msg.CacheMap) -> NDArray[np.int32]:
    x, y, width, height = (
        np.frombuffer(values, np.int32)
        for values in (message.rect_x, message.rect_y, message.rect_width, message.rect_height)
    )
    rectangles = np.stack([x, y, width, height], axis=1)
    inside = (rectangles >= 0).all() and (x + width <= message.width).all() and (y + height <= message.height).all()
    if not inside:
        raise MessageError(f"a rectangle lies outside the image of {message.width} x {message.height} pixels")
    return rectangles


def result_message(header: Header, result: FrameResult, max_output_bytes: int) -> msg.InferenceResult:
    """A result; outputs beyond ``max_output_bytes`` in all are left out (size 0), the others led to the frame."""
    names = list(result.outputs)
    blobs: list[bytes] = []
    room = max_output_bytes
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
        data=_array(b"".join(blobs)),
        variant=result.variant,
        why=result.why,
        **_decoded_fields(result.decoded),
    )


def _in_frame(output: NDArray[Any], result: FrameResult) -> NDArray[Any]:
    if result.motion.is_none:
        return output
    from cacheinf_ros.engine.following import move_output  # here: the matcher has no need to load torch

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


def decoded_from(message: msg.InferenceResult) -> Decoded:
    """Classes and boxes of a result message; class maps are not sent."""
    from cacheinf_ros.engine import Box, Decoded, ScoredClass  # here: the matcher has no need to load torch

    classes = zip(message.class_ids, message.class_names, message.class_scores, strict=True)
    boxes = zip(
        message.box_x, message.box_y, message.box_width, message.box_height,
        message.box_class_ids, message.box_class_names, message.box_scores, strict=True,
    )  # fmt: skip
    return Decoded(
        classes=tuple(ScoredClass(id=i, name=name, score=score) for i, name, score in classes),
        boxes=tuple(
            Box(x=x, y=y, width=w, height=h, class_id=i, name=name, score=score) for x, y, w, h, i, name, score in boxes
        ),
        class_map=None,
    )


def request_message(
    header: Header, *, session: str, sequence: int, model: str, wire: str, data: bytes
) -> msg.FrameRequest:
    """A frame for the server, encoded with :func:`encode`."""
    return msg.FrameRequest(
        header=header, session=session, sequence=sequence, model=model, format=wire, data=_array(data)
    )


def encoded_image_from(request: msg.FrameRequest) -> Pixels:
    """The frame that a robot sent: uint8 [height, width, 3], BGR."""
    return decode_compressed(request.data, request.format)


def packet_message(packet: Packet) -> msg.SplitPacket:
    """A packet of a session between robot and server."""
    return msg.SplitPacket(
        session=packet.session, epoch=packet.epoch, frame=packet.frame, kind=packet.kind, tensor=packet.tensor,
        part=packet.part, parts=packet.parts, checksum=packet.checksum, data=_array(packet.data),
    )  # fmt: skip


def packet_from(message: msg.SplitPacket) -> Packet:
    """The opposite; whether it is sound is for the session to see."""
    return Packet(
        session=message.session, epoch=message.epoch, frame=message.frame, kind=message.kind, tensor=message.tensor,
        part=message.part, parts=message.parts, checksum=message.checksum, data=bytes(message.data),
    )  # fmt: skip


def status_message(name: str, status: Status) -> DiagnosticStatus:
    """A node's report on itself."""
    return DiagnosticStatus(
        level=bytes([status.level]),
        name=name,
        message=status.message,
        values=[KeyValue(key=key, value=value) for key, value in status.values.items()],
    )


def _bytes(values: NDArray[np.uint8]) -> array[int]:
    return _array(values.tobytes())


def _array(data: bytes) -> array[int]:
    # rclpy checks a list or bytes value by value, but takes an array('B') as it is
    return array("B", data)
