# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""One function per decoder, which takes any bytes and raises only what the decoder documents.

Each returns whether the bytes were accepted. Hashes and checksums are left out, as an attacker would write valid ones.
"""

from __future__ import annotations

import json
import math
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from networks.tiny import tiny

from cacheinf_ros.catalog.catalog_folder import CatalogFile
from cacheinf_ros.catalog.heads.head_folder import HeadsFile
from cacheinf_ros.catalog.specialists.specialist_folder import SpecialiseFile
from cacheinf_ros.catalog.specialists.training_set import load_training_set
from cacheinf_ros.catalog.stored_files import read_yaml
from cacheinf_ros.catalog.trunks import trunk_model
from cacheinf_ros.engine import PartitionSpace, Precision
from cacheinf_ros.engine.backends import choose_backend
from cacheinf_ros.engine.bounded.store import checked_calibration
from cacheinf_ros.engine.cost import POINTS
from cacheinf_ros.engine.cost.measure import _parsed as read_costs
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.program import Program
from cacheinf_ros.engine.quantisation import checked_scales, int8_graph
from cacheinf_ros.errors import CacheinfError, MessageError
from cacheinf_ros.fleet.packet_bytes import packet_bytes, packet_of
from cacheinf_ros.graph import Model, ModelCard, model_of
from cacheinf_ros.graph.card import read_card
from cacheinf_ros.graph.graph_io import decode_graph
from cacheinf_ros.graph.ir import Graph
from cacheinf_ros.offload.planning import Workload
from cacheinf_ros.offload.protocol.greeting import read_hello, read_welcome
from cacheinf_ros.offload.protocol.load_content import load_from
from cacheinf_ros.offload.protocol.mailbox import Mailbox
from cacheinf_ros.offload.protocol.newest import NewestContent
from cacheinf_ros.offload.protocol.packets import Kind, Packet
from cacheinf_ros.offload.protocol.patches import decode_patch
from cacheinf_ros.offload.protocol.pixels import decode_pixels
from cacheinf_ros.offload.protocol.starts import decode_start
from cacheinf_ros.offload.protocol.transfer import Served
from cacheinf_ros.offload.searching.search_messages import question_of, table_of
from cacheinf_ros.sources import ValueRange, decode_compressed, decode_picture
from cacheinf_ros.sources.picture_files import MOST_PIXELS, picture_size
from cacheinf_ros.sources.tiff_files import tiff_size

Decoder = Callable[[bytes], bool]
"""A function that returns whether it accepts the bytes."""

_MANY_PIXELS = 2**18
"""The most pixels of a picture here: larger ones that are still decoded only take longer."""
_RANGE = ValueRange(0.3, 5000)
_DEPTH_HEADER = 12  # bytes before the file, in images of compressed_depth_image_transport
PATCH_ROWS, PATCH_WIDTH, PATCH_CHANNELS = (2, 7), 9, 3
PIXELS_SIZE = (40, 50)
_LARGEST_GRAPH = 2_000_000  # the most values in all tensors of a graph that is run


PACKET = struct.Struct("<BHBHHB")
"""In the target ``packets``: kind, frame, tensor, part, parts and length of the data that follows."""
_MOST_WAITING = 1000  # bytes, of the packets of that target


@cache
def tiny_model() -> Model:
    """Build a small network with the same weights on every machine, as seeds hold hashes of them."""
    network, rng = tiny(), np.random.default_rng(0)
    for parameter in network.parameters():
        parameter.data = torch.from_numpy(rng.integers(-8, 9, parameter.shape).astype(np.float32) / 16)
    return model_of(network, ModelCard(name="tiny", input_size=(48, 64)))


def tiny_graph() -> Graph:
    """Return the small network's graph."""
    return tiny_model().graph


@cache
def tiny_trunk() -> Model:
    """Return the small network without its last layer."""
    return trunk_model(tiny_model())


@cache
def workload() -> Workload:
    """Return the small network's operators as a workload."""
    return Workload(lay_out(tiny_graph()))


def space() -> PartitionSpace:
    """Return the small network's possible partitions."""
    return workload().space


def hello(data: bytes) -> bool:
    """Decode a robot's greeting."""
    return accepts(read_hello, data)


def welcome(data: bytes) -> bool:
    """Decode a server's reply to a greeting."""
    return accepts(read_welcome, data)


def start(data: bytes) -> bool:
    """Decode the start of a shared frame."""
    return accepts(lambda content: decode_start(content, space()), data)


def load(data: bytes) -> bool:
    """Decode how busy a server is."""
    busy = load_from(data)
    assert busy is None or 0 <= busy <= 1
    return busy is not None


def served(data: bytes) -> bool:
    """Decode a server's report of a frame that it has computed."""
    found = Served.decode(data)
    assert found is None or all(0 <= each < math.inf for each in (found.took_ms, found.waited_ms, found.busy_ms))
    return found is not None


def packets(data: bytes) -> bool:
    """Reassemble the packets of a session, one after another, as both kinds of sessions do."""
    newest, mailbox = NewestContent(Kind.FRAME, _MOST_WAITING), Mailbox(_MOST_WAITING, tensors=5)
    complete, last = False, 0
    for each in _packets_in(data):
        newest.deliver(each)
        if (arrived := newest.take()) is not None:
            assert arrived.frame > last and len(arrived.content) <= _MOST_WAITING
            complete, last = True, arrived.frame
        mailbox.deliver(each)
        if each.kind == Kind.BYE:
            mailbox.forget_before(each.frame)
        waiting = mailbox._waiting.values()
        assert mailbox._size == sum(assembly.size for assembly in waiting) <= _MOST_WAITING
        complete |= any(assembly.content is not None for assembly in waiting)
    return complete


def _packets_in(data: bytes) -> Iterator[Packet]:
    position = 0
    while position + PACKET.size <= len(data):
        kind, frame, tensor, part, parts, length = PACKET.unpack_from(data, position)
        position += PACKET.size
        content = data[position : position + length]
        position += length
        made = Packet(
            session="a", epoch=1, kind=kind, frame=frame, tensor=tensor, part=part, parts=parts, data=content
        ).sealed()
        if made.is_sound:
            yield made


def rows(data: bytes) -> bool:
    """Decode rows of a tensor."""

    def decode(content: bytes) -> None:
        with suppress(MessageError):
            levels = decode_patch(content, PATCH_ROWS, PATCH_WIDTH, PATCH_CHANNELS, are_levels=True)
            assert levels.values.dtype == np.uint8
        patch = decode_patch(content, PATCH_ROWS, PATCH_WIDTH, PATCH_CHANNELS)
        assert patch.mask.shape == (PATCH_ROWS[1] - PATCH_ROWS[0], PATCH_WIDTH)
        assert patch.values.shape == (int(patch.mask.sum()), PATCH_CHANNELS)
        assert patch.values.dtype.kind != "f" or np.isfinite(patch.values).all()

    return accepts(decode, data)


def search(data: bytes) -> bool:
    """Decode a robot's request for schedules."""

    def decode(content: bytes) -> None:
        machines = question_of(content, np.ones((len(workload().names), len(POINTS)))).machines
        assert machines.robot_ms.shape == machines.server_ms.shape and np.isfinite(machines.robot_ms).all()

    return accepts(decode, data)


def schedules(data: bytes) -> bool:
    """Decode a server's table of schedules, each of which must be executable."""

    def decode(content: bytes) -> None:
        for rows in table_of(content, workload()).rows.reshape(-1, len(workload().names)):
            space().check(workload().partition_of(rows))

    return accepts(decode, data)


def pixels(data: bytes) -> bool:
    """Decode changed pixels of the input."""

    def decode(content: bytes) -> None:
        found = decode_pixels(content, *PIXELS_SIZE)
        first, last = found.rows
        assert 0 <= first <= last <= PIXELS_SIZE[0]
        assert found.mask.shape == (last - first, PIXELS_SIZE[1]) and found.image.shape == (*found.mask.shape, 3)

    return accepts(decode, data)


def picture(data: bytes) -> bool:
    """Decode the picture file of a whole frame."""
    return not _takes_long(data) and accepts(lambda content: decode_picture(content), data)


def compressed(data: bytes) -> bool:
    """Decode a camera's compressed image, which follows a line with its format."""
    description, _, content = data.partition(b"\n")
    if _takes_long(content) or _takes_long(content[_DEPTH_HEADER:]):
        return False
    text = description.decode(errors="replace")
    plain, scaled = (accepts(lambda raw, to=to: decode_compressed(raw, text, to), content) for to in (None, _RANGE))
    return plain or scaled


def fleet_packet(data: bytes) -> bool:
    """Decode a packet between a gateway and a process that computes for it."""

    def decode(content: bytes) -> None:
        found = packet_of(content)
        assert packet_bytes(found) == content
        assert isinstance(found.is_sound, bool) and isinstance(found.starts_session, bool)

    return accepts(decode, data)


def graph(data: bytes) -> bool:
    """Decode a stored graph; one that is accepted is compiled, and run by the compiled kernels."""
    read: list[Graph] = []
    if not accepts(lambda content: read.append(decode_graph(memoryview(bytearray(content)))), data):
        return False
    (found,) = read
    if sum(torch.Size(spec.shape).numel() for spec in found.tensors.values()) <= _LARGEST_GRAPH:
        _run(found)
    return True


def calibration(data: bytes) -> bool:
    """Decode a stored calibration; whatever its parser raises counts as a refusal, see ``KeptFile.read``."""
    return accepts(lambda content: checked_calibration(memoryview(content), tiny_graph()), data, Exception)


def costs(data: bytes) -> bool:
    """Decode a stored cost model."""
    return accepts(lambda content: read_costs(json.loads(content)), data, Exception)


def scales(data: bytes) -> bool:
    """Decode the scales of a catalog's variant, which nobody vouches for; kernels compute with those accepted."""
    read: list[Graph] = []
    if not accepts(lambda content: read.append(int8_graph(tiny_graph(), checked_scales(content, tiny_graph()))), data):
        return False
    _run(read[0], Precision.INT8)
    return True


def card(data: bytes) -> bool:
    """Decode a model card."""
    return accepts(read_card, _as_file(data))


def catalog(data: bytes) -> bool:
    """Decode a catalog's file."""
    return accepts(lambda path: read_yaml(path, CatalogFile, "build it anew"), _as_file(data))


def specialise(data: bytes) -> bool:
    """Decode a catalog's description of specialists."""
    return accepts(lambda path: read_yaml(path, SpecialiseFile, "build it anew"), _as_file(data))


def training_set(data: bytes) -> bool:
    """Decode samples from which specialists are made."""
    return accepts(lambda path: load_training_set(path, tiny_trunk()), _as_file(data))


def heads(data: bytes) -> bool:
    """Decode the description of a folder of heads."""
    return accepts(lambda path: read_yaml(path, HeadsFile, "write it anew"), _as_file(data))


DECODERS: dict[str, Decoder] = {
    each.__name__: each
    for each in (
        *(hello, welcome, load, start, served, packets, rows, search, schedules, pixels),
        *(picture, compressed, fleet_packet),
        *(graph, calibration, costs, scales, card, catalog, specialise, training_set, heads),
    )
}
"""All decoders by name, except those that need ROS, which are in :mod:`.messages`."""


def all_decoders() -> dict[str, Decoder]:
    """Return all decoders, including those of ROS messages where ROS is installed."""
    try:
        from fuzzing.messages import MESSAGE_DECODERS
    except ImportError:
        return DECODERS
    return DECODERS | MESSAGE_DECODERS


def accepts(decode: Callable[[Any], object], data: Any, refusal: type[Exception] = CacheinfError) -> bool:
    """Tell whether a decoder accepts the data; any exception other than a refusal is raised."""
    try:
        decode(data)
    except refusal:
        return False
    return True


def _takes_long(data: bytes) -> bool:
    size = picture_size(data) or tiff_size(data)
    return size is not None and _MANY_PIXELS < size[0] * size[1] <= MOST_PIXELS


def _as_file(data: bytes) -> Path:
    path = Path(_folder().name) / "file.yaml"
    path.write_bytes(data)
    return path


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    in_memory = Path("/dev/shm")  # opening a file on a disk takes longer than all else
    return tempfile.TemporaryDirectory(prefix="fuzzing", dir=in_memory if in_memory.is_dir() else None)


def _run(found: Graph, precision: Precision = Precision.FLOAT32) -> None:
    try:
        program = Program(found, choose_backend("cpu", 1, precision))
        program.input.pixels.fill_(0.5)
        program.changed_input.fill()
        program.execute(refresh=True)
        program.changed_input.fill_middle(0.3)
        program.execute()
    except (CacheinfError, RuntimeError, ValueError, TypeError, LookupError, NotImplementedError):
        pass  # torch refuses some arguments of global operators
