# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Read from an ONNX file which pictures it takes, and refuse, with the remedy, what no frame can be turned into."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import onnx
from onnx import TensorProto

from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph.card import MOST_PICTURES, ModelCard, is_grey, says_values
from cacheinf_ros.graph.fixed_inputs import example_of
from cacheinf_ros.graph.image_size import agreed_size
from cacheinf_ros.graph.picture_inputs import PictureInput

FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}
"""The types of floats in a file; all of them are computed in float32."""
_VOLUME = 5  # sides of a volume: [1, channels, slices, height, width]
_MOVING = {"Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}  # they compute nothing


def picture_inputs(model: onnx.ModelProto, path: Path, card: ModelCard) -> tuple[PictureInput, ...]:
    """Return the input that takes a frame, or those that take the pictures side by side in it, left one first.

    Args:
        path: where the model comes from, for errors.
        card: may ask for a size, and must say how to prepare images for an input of whole numbers.

    Raises:
        ModelError: there is not one image [1, 3, height, width], or [1, 1, height, width] where the card says grey, or
            as many of either as the card says, or one input for so many grey pictures, of the size that the card asks
            for, or the card does not say which whole numbers the input wants.
    """
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    if card.pictures > 1:
        return _side_by_side(inputs, model, path, card)
    if len(inputs) != 1:
        named = ", ".join(f"{value.name} {_shape(value)}" for value in inputs) or "none"
        others = [value for value in inputs if len(value.type.tensor_type.shape.dim) != 4]
        example = example_of(others) if len(others) == len(inputs) - 1 else ""
        card_says = f", or say in a model card what the rest is in every frame: '{example}'" if example else ""
        if len(inputs) == 2 and not others:
            card_says = (
                ", or, where both take a picture, have each frame show the two side by side, and say in a model card "
                "'pictures: 2'"
            )
        raise ModelError(
            f"{path} must take one image, but its inputs are: {named}. Export it with the image alone{card_says}"
        )
    (image,) = inputs
    channels = 1 if is_grey(card) else 3
    size = agreed_size(str(path), _fixed_size(image, path, channels, _or_several(_sides(image))), card.input_size)
    _check_values(image, model, path, card)
    return (PictureInput(image.name, channels, size),)


def _side_by_side(
    inputs: list[onnx.ValueInfoProto], model: onnx.ModelProto, path: Path, card: ModelCard
) -> tuple[PictureInput, ...]:
    """Return the inputs for the pictures of one size in a frame; ``card`` may ask for the size of the whole frame."""
    named = ", ".join(f"{value.name} {_shape(value)}" for value in inputs) or "none"
    taken = _sides(inputs[0]) if len(inputs) == 1 else []
    is_stack = _takes(taken, card.pictures)
    if len(inputs) != card.pictures and not is_stack:
        remedy = "'fixed_inputs' in the card says what others are in every frame"
        if len(inputs) == 1:
            fixed = f"[1, {card.pictures}, height, width] or [1, 1, {card.pictures}, height, width]"
            remedy = f"An input that takes all of them is {fixed}"
        raise ModelError(
            f"{path} must take {card.pictures} images, as its model card says, but its inputs are: {named}. {remedy}"
        )
    if is_stack:
        channels, sizes = [1], [(taken[-2], taken[-1])]
    else:
        channels = [_channels(value) for value in inputs]
        sizes = [_fixed_size(value, path, count) for value, count in zip(inputs, channels, strict=True)]
    if len({side for side, _ in sizes} - {0}) > 1 or len({side for _, side in sizes} - {0}) > 1:
        raise ModelError(f"{path} takes images of several sizes: {named}. Export it for images of one size")
    height, width = (max(sides) for sides in zip(*sizes, strict=True))
    what = f"{path}, whose frames show {card.pictures} pictures side by side,"
    height, width = agreed_size(what, (height, width * card.pictures), card.input_size, card.pictures)
    if 1 in channels and "one_channel_range" not in card.model_fields_set:
        raise ModelError(
            f"{path} takes {named}. Say in its model card what black and white are to an input of one channel, such as "
            "'one_channel_range: [0, 1]'"
        )
    for value in inputs:
        _check_values(value, model, path, card)
    part = height, width // card.pictures
    if is_stack:
        return (PictureInput(inputs[0].name, 1, part, card.pictures, len(taken) == _VOLUME),)
    return tuple(PictureInput(value.name, count, part) for value, count in zip(inputs, channels, strict=True))


def _takes(sides: list[int], pictures: int) -> bool:
    """Tell whether an input of such sides takes so many grey pictures, as channels or as the slices of a volume."""
    return sides[:-2] in ([1, pictures], [0, pictures], [1, 1, pictures], [0, 1, pictures])


def _sides(image: onnx.ValueInfoProto) -> list[int]:
    """Return the lengths of an input's sides; 0: open."""
    return [side.dim_value for side in image.type.tensor_type.shape.dim]


def _channels(image: onnx.ValueInfoProto) -> int:
    sides = _sides(image)
    return 1 if len(sides) == 4 and sides[1] == 1 and sides[3] != 3 else 3


def _check_values(image: onnx.ValueInfoProto, model: onnx.ModelProto, path: Path, card: ModelCard) -> None:
    """Refuse an input of whole numbers that are computed with, or of which the card does not say which they are."""
    kind = image.type.tensor_type.elem_type
    if kind not in FLOATS:
        _check_whole_numbers(model.graph.node, image.name, f"{path} takes {TensorProto.DataType.Name(kind).lower()}")
        if not says_values(card):
            raise ModelError(
                f"{path} takes {TensorProto.DataType.Name(kind).lower()}, so it prepares images itself. Say in a model "
                "card which values it wants; for pixels as they are: 'scale: 1', 'mean: [0, 0, 0]' and "
                "'std: [1, 1, 1]', each on a line"
            )


def _or_several(sides: list[int]) -> str:
    """Say how an input with more channels or slices than an image has can be given a frame; empty: it cannot."""
    several = next((side for side in sides[1:-2] if side > 1), 0)
    if not 1 < several <= MOST_PICTURES or not _takes(sides, several):
        return ""
    return (
        f". If it takes {several} pictures, such as slices of voxels, have each frame show them side by side, and say "
        f"in a model card 'pictures: {several}'"
    )


def _fixed_size(image: onnx.ValueInfoProto, path: Path, channels: int, otherwise: str = "") -> tuple[int, int]:
    """Return the (height, width) that the file fixes, 0 where one is open; its images must have so many channels.

    ``otherwise`` says what else may be done with an input of another shape.
    """
    sides = _sides(image)
    if len(sides) == 4 and sides[1] not in (1, 3) and sides[3] in (1, 3):
        raise ModelError(
            f"{path} takes {_shape(image)}, channels last: export it with channels first, NCHW, "
            f"[1, {sides[3]}, height, width]"
        )
    if len(sides) == 4 and sides[1] == 1 and channels != 1:
        raise ModelError(
            f"{path} takes {_shape(image)}, a grey picture. Say so in a model card, and which values it wants: "
            "'channel_order: grey', and for values of 0 to 1 'mean: [0]' and 'std: [1]', each on a line"
        )
    if len(sides) == 4 and sides[1] == 3 and channels != 3:
        raise ModelError(f"{path} takes {_shape(image)}, a picture in colour: leave out 'channel_order: grey'")
    if len(sides) != 4 or sides[1] not in (0, channels):
        raise ModelError(
            f"{path} takes {_shape(image)}, not one image [1, {channels}, height, width]: export it so{otherwise}"
        )
    if sides[0] > 1:
        raise ModelError(f"{path} takes {_shape(image)}, {sides[0]} images at once: export it with batch 1")
    return sides[2], sides[3]


def _shape(value: onnx.ValueInfoProto) -> str:
    sides = value.type.tensor_type.shape.dim
    return "[" + ", ".join(str(side.dim_value) if side.dim_value else side.dim_param or "?" for side in sides) + "]"


def _check_whole_numbers(nodes: Iterable[onnx.NodeProto], name: str, what: str) -> None:
    """Refuse what computes with the input's whole numbers: floats are computed here, and do not overflow or round."""
    moved = {name}
    for node in nodes:  # in the order of execution
        if node.op_type in _MOVING and node.input[0] in moved:
            moved.update(node.output)
        elif node.op_type != "Cast" and moved & set(node.input):
            raise ModelError(
                f"{what}, and its node {node.name or node.output[0]!r} ({node.op_type}) computes with that: export it "
                "for float images, or with a Cast to float first"
            )
