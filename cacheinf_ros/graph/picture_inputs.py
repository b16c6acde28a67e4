# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Make what an ONNX file's inputs take of a frame: the picture itself, grey, or those that it shows side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cacheinf_ros.graph.card import ModelCard
from cacheinf_ros.graph.ir import COLOURS, LARGEST_LEVEL

_GREEN = 1  # in either order of channels
_LUMA = (0.299, 0.587, 0.114)  # of red, green and blue (ITU-R BT.601), as OpenCV makes colours grey


class PictureInput(NamedTuple):
    """An input of an ONNX file that takes a picture, or some of those in a frame.

    Attributes:
        channels: of each picture: 3, or 1: it becomes grey.
        size: (height, width) of a picture.
        pictures: how many the input takes, as its channels where it is no volume.
        is_volume: whether it takes them as the slices of a volume.
    """

    name: str
    channels: int
    size: tuple[int, int]
    pictures: int = 1
    is_volume: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what the input takes."""
        if self.is_volume:
            return 1, self.channels, self.pictures, *self.size
        return 1, self.channels * self.pictures, *self.size


class PictureInputs(nn.Module):
    """Makes the values of all inputs, by name, of a frame, float32 [1, 3, height, width] as the card normalises it."""

    _weights: Tensor
    _shift: Tensor | None

    def __init__(self, inputs: tuple[PictureInput, ...], card: ModelCard) -> None:
        """Take the inputs in the order, from left to right, in which the frame shows their pictures."""
        super().__init__()
        self._inputs = inputs
        weights, shift = list(_LUMA), 0.0
        if card.pictures > 1:  # the mean level of the channels counts
            factors, summands = _undone(card)
            weights, shift = [factor / COLOURS for factor in factors], sum(summands) / COLOURS
            self._factor, self._summand = factors[_GREEN], summands[_GREEN]
        self.register_buffer("_weights", torch.tensor(weights).reshape(1, COLOURS, 1, 1), persistent=False)
        self.register_buffer("_shift", torch.tensor([shift]) if shift else None, persistent=False)

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of the frame."""
        (height, width), *_ = (each.size for each in self._inputs)
        return height, width * sum(each.pictures for each in self._inputs)

    def forward(self, frame: Tensor) -> Mapping[str, Tensor]:
        """Return what each input takes, by name."""
        (first, *others) = self._inputs
        if not others and first.pictures == 1:
            return {first.name: self._with_channels(frame, first.channels)}
        if not others:
            return {first.name: self._beneath_each_other(frame, first)}
        width = first.size[1]
        return {
            each.name: self._with_channels(_picture(frame, i, width), each.channels)
            for i, each in enumerate(self._inputs)
        }

    def _with_channels(self, picture: Tensor, channels: int) -> Tensor:
        if channels == COLOURS:
            return picture
        return nn.functional.conv2d(picture, self._weights, self._shift)

    def _beneath_each_other(self, frame: Tensor, by: PictureInput) -> Tensor:
        """Return all pictures of a frame, grey, as channels, or as slices of a volume.

        One channel counts, as all three are the same in grey pictures. Their weighted sum, over pictures of so many
        pixels, would take other engines as long as a third of a network.
        """
        grey = frame[:, _GREEN : _GREEN + 1]
        if self._factor != 1:
            grey = grey * self._factor
        if self._summand:
            grey = grey + self._summand
        channels = torch.cat([_picture(grey, i, by.size[1]) for i in range(by.pictures)], 1)
        return channels.unsqueeze(1) if by.is_volume else channels


def _picture(frame: Tensor, number: int, width: int) -> Tensor:
    """Return a picture of a frame; not by chunk, whose result torch.fx cannot take apart."""
    return frame[:, :, :, number * width : (number + 1) * width]


def _undone(card: ModelCard) -> tuple[list[float], list[float]]:
    """Return by what each normalised channel is multiplied, and what is added, to give a value of the card's range.

    A channel is (level * scale - mean) / std, which is undone here.
    """
    black, white = card.one_channel_range
    per_level = (white - black) / (LARGEST_LEVEL * card.scale)
    return [per_level * std for std in card.std], [black + per_level * mean for mean in card.mean]
