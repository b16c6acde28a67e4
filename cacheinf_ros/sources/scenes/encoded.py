# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A built-in scene as a camera with an H.264 encoder delivers it: the truth is known, and codec noise is real."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np

from cacheinf_ros.errors import SourceError
from cacheinf_ros.sources.frame import Frame
from cacheinf_ros.sources.objects import TrueObject
from cacheinf_ros.sources.scenes.scene import Scene
from cacheinf_ros.sources.scenes.truth import SceneTruth

_KEY_FRAMES_S = 2.0
_CODEC = "h264"


class EncodedScene:
    """A scene whose frames are encoded as a camera would, without references to later frames, and decoded again.

    All frames are encoded when the first is needed, and kept as the encoder's packets.

    Raises:
        SourceError: PyAV is not installed, or cannot encode H.264.
    """

    def __init__(self, scene: Scene) -> None:
        """Prepare to encode a scene, whose configuration must have a ``crf``."""
        if scene.config.crf is None:
            raise SourceError(f"{scene.name} says no quality to encode it at: append crf=23, for instance")
        self.scene = scene
        self.name = f"{scene.name}, crf {scene.config.crf:g}"
        self.fps = scene.fps
        self.length = scene.length
        self._crf = scene.config.crf
        self._av = _pyav()
        self._packets: list[bytes] = []

    def __iter__(self) -> Iterator[Frame]:
        """Yield the decoded frames from the start."""
        self._packets = self._packets or self._encoded()
        decoder = self._av.CodecContext.create(_CODEC, "r")
        decoder.flags |= self._av.codec.context.Flags.low_delay
        index = 0
        for packet in [*(self._av.Packet(content) for content in self._packets), None]:
            for decoded in decoder.decode(packet):
                image = np.asarray(decoded.to_ndarray(format="bgr24"), np.uint8)
                yield Frame(index=index, stamp_ns=round(index * 1e9 / self.fps), image=image)
                index += 1

    def truth(self, index: int) -> SceneTruth:
        """Return the scene's truth about the frame at ``index``, whatever the codec has changed."""
        return self.scene.truth(index)

    def objects(self, index: int) -> tuple[TrueObject, ...]:
        """Implement :meth:`cacheinf_ros.sources.objects.KnowsObjects.objects`."""
        return self.scene.objects(index)

    def classes(self) -> tuple[str, ...]:
        """Implement :meth:`cacheinf_ros.sources.objects.KnowsObjects.classes`."""
        return self.scene.classes()

    def _encoded(self) -> list[bytes]:
        encoder = self._encoder()
        packets: list[bytes] = []
        for frame in self.scene:
            picture = self._av.VideoFrame.from_ndarray(np.ascontiguousarray(frame.image), format="bgr24")
            picture.pts = frame.index
            packets += map(bytes, encoder.encode(picture.reformat(format="yuv420p")))
        return packets + [bytes(packet) for packet in encoder.encode(None)]

    def _encoder(self) -> Any:
        height, width = self.scene.config.size
        if height % 2 or width % 2:
            raise SourceError(f"{self.name}: H.264 needs an even height and width, not {height}x{width}")
        rate = Fraction(self.fps).limit_denominator(1001)
        encoder = self._av.CodecContext.create("libx264", "w")
        encoder.width, encoder.height, encoder.pix_fmt = width, height, "yuv420p"
        encoder.framerate, encoder.time_base = rate, 1 / rate
        encoder.gop_size = max(1, round(_KEY_FRAMES_S * self.fps))
        # one thread, for the same packets on every machine
        encoder.options = {"crf": f"{self._crf:g}", "preset": "veryfast", "tune": "zerolatency", "threads": "1"}
        return encoder


def _pyav() -> ModuleType:
    try:
        import av
    except ModuleNotFoundError as error:
        raise SourceError(f"encoded scenes need a Python package ({error}); pip install av") from None
    if "libx264" not in av.codecs_available:
        raise SourceError("encoded scenes need PyAV with libx264; pip install --force-reinstall av")
    return av
