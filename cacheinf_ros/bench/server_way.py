# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Simulates a server that answers over a link of known speed: whole frames are sent as JPEG (``remote_jpeg``).

The server's decisions are computed here, on the pictures that would arrive. The time is that of encoding here, plus the
given times of link and server.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.bench.timing import measured
from cacheinf_ros.bench.trace import as_jpeg
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.offload import OffloadConfig

SERVER = "server"
"""The name of the server's way in reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLink:
    """A server and the link to it, with figures that were measured elsewhere.

    Attributes:
        mbit_s: bandwidth towards the server, in Mbit/s.
        round_trip_ms: round trip of a small message.
        server_ms: the server's time for a frame.
    """

    mbit_s: float
    round_trip_ms: float
    server_ms: float

    @classmethod
    def parse(cls, text: str) -> ServerLink | None:
        """Read "MBIT_S,ROUND_TRIP_MS,SERVER_MS", such as "40,4,9"; None where it is empty.

        Raises:
            ConfigError: the text has no such form, or a number makes no sense.
        """
        if not text:
            return None
        try:
            mbit_s, round_trip_ms, server_ms = (float(part) for part in text.split(","))
        except ValueError:
            mbit_s = round_trip_ms = server_ms = math.nan
        if not (0 < mbit_s < math.inf and 0 <= round_trip_ms < math.inf and 0 <= server_ms < math.inf):
            raise ConfigError(f"server {text!r}: give Mbit/s, milliseconds there and back, and milliseconds of a frame")
        return cls(mbit_s=mbit_s, round_trip_ms=round_trip_ms, server_ms=server_ms)

    def transfer_ms(self, size: int) -> float:
        """Return the milliseconds that sending so many bytes takes."""
        return size * 8 / (1e3 * self.mbit_s)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SentFrame:
    """A frame on its way to the server.

    Attributes:
        image: the picture that arrives, uint8 [height, width, 3].
        encode_ms: time of encoding at the robot.
        transfer_ms: time of sending.
        took_ms: time from the frame to its result.
    """

    image: NDArray[np.uint8]
    encode_ms: float
    transfer_ms: float
    took_ms: float


def send(image: NDArray[np.uint8], link: ServerLink) -> SentFrame:
    """Encode a frame as a robot does, and compute how long its answer takes."""
    content, encode_ms = measured(as_jpeg, image, OffloadConfig().jpeg_quality)
    transfer_ms = link.transfer_ms(len(content))
    arrived = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
    return SentFrame(
        image=np.asarray(arrived, np.uint8),
        encode_ms=encode_ms,
        transfer_ms=transfer_ms,
        took_ms=encode_ms + transfer_ms + link.round_trip_ms + link.server_ms,
    )
