# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The start of a session: both sides make sure that they run the same network."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cacheinf_ros.errors import MessageError
from cacheinf_ros.graph import Model, ModelCard, graph_hash

PROTOCOL = 5
_MOST_OPERATORS = 5000
LONGEST_GREETING = 2_000_000  # bytes


class Work(Enum):
    """The kind of work that a server does in a session."""

    ROWS = "rows"
    """The server computes its rows of frames that both sides share."""
    FRAMES = "frames"
    """The server computes whole frames."""


class _Content(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)  # nobody waits for NaN milliseconds


Said = TypeVar("Said", bound=_Content)


class _Version(BaseModel):
    """The field that every version of both greetings has; it is read first, because the rest may have changed."""

    protocol: int | None = None


class Hello(_Content):
    """The robot's greeting.

    Attributes:
        protocol: the version of the protocol, :data:`PROTOCOL`.
        model: the model's name, for texts.
        network: hash of the graph, the weights, and how images are prepared.
        work: what the server is to do.
        wire_type, compress: how values are encoded in both directions, see :mod:`.patches`.
        patience_ms: how long the server waits for the robot's rows.
        priority: the robot's priority where a fleet has not room for all; higher goes first.
        dropped: the feature maps that the robot does not keep between frames, where rows are shared; the server must
            not keep them either.
        levels: digest of the graph where rows of levels are sent, which mean nothing with other scales, or where
            bfloat16 added conversions to the graph; otherwise empty.
    """

    protocol: int
    model: str = Field(max_length=1000)
    network: str = Field(max_length=100)
    work: Work
    wire_type: str = Field(max_length=20)
    compress: bool
    patience_ms: float = Field(gt=0, le=60_000)
    priority: int = Field(0, ge=-100, le=100)
    dropped: tuple[str, ...] = Field((), max_length=_MOST_OPERATORS)
    levels: str = Field("", max_length=100)


class Welcome(_Content):
    """The server's greeting.

    Attributes:
        protocol: the version of the protocol, :data:`PROTOCOL`.
        instance: identifies the server's session; another instance knows nothing of what was sent before.
        profile: milliseconds of each operator at :data:`.cost.model.POINTS`, on the server; empty where it computes
            whole frames, or could not measure what its operators take.
        server: the name of the robot's own gateway, part of the name of a topic; empty: there is one server.
    """

    protocol: int
    instance: str = Field(max_length=100)
    profile: list[list[float]] = Field(max_length=_MOST_OPERATORS)
    server: str = Field("", pattern=r"^([A-Za-z][A-Za-z0-9_]*)?$", max_length=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What robot and server must have in common.

    Attributes:
        model: the model's name.
        network: hash of graph, weights, and how images are prepared.
        dropped: the feature maps that are not kept between frames, where rows are shared.
        levels: see :class:`Hello`.
    """

    model: str
    network: str
    dropped: tuple[str, ...] = ()
    levels: str = ""

    @classmethod
    def of(cls, model: Model) -> Identity:
        """Return the identity of a model; takes some time."""
        return cls.stated(model.name, graph_hash(model.graph), model.card)

    @classmethod
    def stated(cls, name: str, graph: str, card: ModelCard) -> Identity:
        """Return the identity of a model that is not loaded: by name, :func:`graph_hash`, and card with input size."""
        prepared = (card.input_size, card.resize, card.channel_order, card.scale, tuple(card.mean), tuple(card.std))
        pictures = f", {card.pictures} pictures" if card.pictures > 1 else ""
        network = hashlib.sha256(f"{graph}{prepared}{pictures}".encode()).hexdigest()[:32]
        return cls(model=name, network=network)


def read_hello(data: bytes) -> Hello:
    """Read a robot's greeting; raises :class:`MessageError` where it makes no sense, or is of another protocol."""
    return _read(Hello, data, "the server", "the robot")


def read_welcome(data: bytes) -> Welcome:
    """Read a server's greeting; raises :class:`MessageError` where it makes no sense, or is of another protocol."""
    return _read(Welcome, data, "the robot", "the server")


def written(content: Hello | Welcome) -> bytes:
    """Encode a greeting.

    Fields with their default are left out, so that sides that do not know these fields understand the rest.
    """
    return content.model_dump_json(exclude_defaults=True).encode()


def _read(kind: type[Said], data: bytes, reader: str, writer: str) -> Said:
    if len(data) > LONGEST_GREETING:
        raise MessageError(f"a greeting of {len(data)} bytes")
    try:
        spoken = _Version.model_validate_json(data).protocol
        if spoken != PROTOCOL:
            other = "an older one" if spoken is None else spoken
            raise MessageError(f"{reader} speaks protocol {PROTOCOL}, {writer} {other}: install the same version")
        return kind.model_validate_json(data)
    except ValidationError as error:
        raise MessageError(f"a greeting makes no sense: {error.errors()[0]['msg']}") from None
