# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The parameters of a built-in scene, and how users write them."""

from __future__ import annotations

from enum import Enum
from typing import Annotated
from urllib.parse import parse_qsl

from pydantic import BeforeValidator, Field

from cacheinf_ros.config import Config, parameter
from cacheinf_ros.errors import ConfigError, SourceError


class MotionPreset(Enum):
    """How the camera moves; the value is the scene's name."""

    FIXED = "fixed"
    PAN = "pan"
    HANDHELD = "handheld"
    FORWARD = "forward"
    TURN = "turn"
    PARALLAX = "parallax"


class Gallery(Enum):
    """The set of photographs that a scene shows: ``scenenet`` is trained on one and tested on the other."""

    TEST = "test"
    TRAIN = "train"


def _split_size(value: object) -> object:
    """Split "480x640" into (480, 640); other values are returned as they are."""
    return tuple(value.split("x")) if isinstance(value, str) else value


_Side = Annotated[int, Field(ge=32, le=4096)]
_Size = Annotated[tuple[_Side, _Side], BeforeValidator(_split_size)]


class SceneConfig(Config):
    """The content of a built-in scene. The same values always give the same frames."""

    preset: MotionPreset = parameter(MotionPreset.FIXED, "how the camera moves")
    seed: int = parameter(0, "chooses photographs, objects, their paths and the noise", low=0, high=2**31 - 1)
    size: _Size = parameter((480, 640), "height x width of a frame, in pixels")
    frames: int = parameter(300, "number of frames", low=1, high=10_000_000)
    fps: float = parameter(30.0, "frames per second", low=0.1, high=1000)
    speed: float = parameter(1.0, "factor on the speed of the camera", low=0, high=20)
    objects: int = parameter(6, "number of moving objects", low=0, high=200)
    noise: float | None = parameter(
        None,
        "standard deviation of the sensor noise in grey levels; unset: 0 for a fixed camera, else 1",
        low=0,
        high=50,
    )
    enter: int = parameter(
        0, "frame from which on objects come in from the sides, one every half second; 0: they are there", low=0
    )
    drift: float = parameter(0.0, "slow change of brightness, as a fraction up and down", low=0, high=0.9)
    gallery: Gallery = parameter(Gallery.TEST, "set of photographs")
    photograph: str = parameter("", "the one photograph that is the background; empty: all of the gallery")
    crf: float | None = parameter(
        None, "encode the frames with H.264 at this constant rate factor, and decode them again; unset: do not",
        low=0, high=51,
    )  # fmt: skip

    @property
    def noise_level(self) -> float:
        """The standard deviation of the sensor noise, in grey levels."""
        if self.noise is not None:
            return self.noise
        return 0.0 if self.preset is MotionPreset.FIXED else 1.0


def parse_scene(description: str) -> SceneConfig:
    """Read the scene's parameters from a text such as "handheld?seed=1&size=480x640".

    Raises:
        SourceError: there is no such scene, or a parameter is unknown or unusable.
    """
    name, _, query = description.partition("?")
    names = [preset.value for preset in MotionPreset]
    if name not in names:
        raise SourceError(f"there is no built-in scene {name!r}; choose from {', '.join(names)}")
    try:
        values = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=True)) if query else {}
        return SceneConfig.checked(**{**values, "preset": name})
    except ConfigError as error:
        known = ", ".join(sorted(set(SceneConfig.model_fields) - {"preset"}))
        raise SourceError(f"scene:{description}: {error}; parameters are {known}") from None
    except ValueError:
        raise SourceError(f"scene:{description}: write parameters as NAME?seed=1&size=480x640") from None
