# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Make what an ONNX file's inputs take of a frame: the picture itself, grey, or the two that it shows side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cacheinf_ros.graph.card import ModelCard
from cacheinf_ros.graph.ir import COLOURS, LARGEST_LEVEL

_LUMA = (0.299, 0.587, 0.114)  # of red, green and blue (ITU-R BT.601), as OpenCV makes colours grey


class PictureInput(NamedTuple):
    """An input of an ONNX file that takes a picture, or one of the two in a frame.

    Attributes:
        channels: 3, or 1: the picture becomes grey.
        size: (height, width) of the picture.
    """

    name: str
    channels: int
    size: tuple[int, int]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The shape of what the input takes."""
        return 1, self.channels, *self.size


class PictureInputs(nn.Module):
    """Makes the values of all inputs, by name, of a frame, float32 [1, 3, height, width] as the card normalises it."""

    _weights: Tensor
    _shift: Tensor | None

    def __init__(self, inputs: tuple[PictureInput, ...], card: ModelCard) -> None:
        """Take the inputs in the order, from left to right, in which the frame shows their pictures."""
        super().__init__()
        self._inputs = inputs
        weights, shift = _depth(card) if card.pictures > 1 else (_LUMA, 0.0)
        self.register_buffer("_weights", torch.tensor(weights).reshape(1, COLOURS, 1, 1), persistent=False)
        self.register_buffer("_shift", torch.tensor([shift]) if shift else None, persistent=False)

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of the frame."""
        (height, width), *_ = (each.size for each in self._inputs)
        return height, width * len(self._inputs)

    def forward(self, frame: Tensor) -> Mapping[str, Tensor]:
        """Return what each input takes, by name."""
        pictures = [frame]
        if len(self._inputs) > 1:  # not by chunk, whose result torch.fx cannot take apart
            width = self._inputs[0].size[1]
            pictures = [frame[:, :, :, i * width : (i + 1) * width] for i in range(len(self._inputs))]
        return {each.name: self._as_taken(seen, each) for each, seen in zip(self._inputs, pictures, strict=True)}

    def _as_taken(self, picture: Tensor, by: PictureInput) -> Tensor:
        if by.channels == COLOURS:
            return picture
        return nn.functional.conv2d(picture, self._weights, self._shift)


def _depth(card: ModelCard) -> tuple[tuple[float, ...], float]:
    """Return by what normalised channels are multiplied, and what is added, to give a value of the card's range.

    The mean level of the channels counts: each is (level * scale - mean) / std, which is undone here.
    """
    black, white = card.one_channel_range
    per_level = (white - black) / (LARGEST_LEVEL * COLOURS * card.scale)
    return tuple(per_level * std for std in card.std), black + per_level * sum(card.mean)
