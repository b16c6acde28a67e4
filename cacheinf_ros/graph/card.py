# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Model cards: a YAML file that says how a model wants its images and what its outputs mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from cacheinf_ros.config import Config, expanded, parameter, parse_size
from cacheinf_ros.disk_cache import OptionalSha256
from cacheinf_ros.errors import ConfigError, ModelError
from cacheinf_ros.graph.decoder_configs import Decoder, Size
from cacheinf_ros.graph.fixed_inputs import FixedInput, parse_fixed_inputs
from cacheinf_ros.graph.image_size import divisible
from cacheinf_ros.yaml_text import read_yaml_text

TRUSTED = "trusted:"
"""The prefix of a ``.pt2`` file by which the user accepts that reading it may run code that is in it."""
Resize = Literal["stretch", "letterbox", "letterbox_corner"]
"""How a frame gets the size of the model's input: stretched, in the middle of a margin, or in its upper left corner."""
_Number = Annotated[float, Field(ge=-1e6, le=1e6)]  # far from where float32 ends, so that every input is finite
_Divisor = Annotated[float, Field(ge=1e-6, le=1e6)]
_VALUES = {"scale", "mean", "std"}
VALUE_FIELDS = frozenset({"channel_order", *_VALUES})
"""The fields of a card that say which values the input has."""
MOST_PICTURES = 256
"""The most pictures in a frame: each takes operators of its own."""


class ModelCard(Config):
    """How to load a model, prepare its input and read its outputs."""

    name: str = parameter("", "what results call the model")
    factory: str = parameter(
        "", "where the model comes from: torchvision:NAME, module:factory, file.py:factory, a file"
    )
    weights: Path | None = parameter(None, "safetensors or state dict; relative to the card")
    input_size: tuple[Size, Size] | None = parameter(None, "(height, width) of the model's input")
    resize: Resize = parameter(
        "stretch",
        "how a frame gets that size: stretch, or with its own proportions and a margin of grey 114: letterbox "
        "(in the middle, as ultralytics does), letterbox_corner (left above, as YOLOX does)",
    )
    channel_order: Literal["rgb", "bgr", "grey"] = parameter(
        "rgb", "order of the channels of the model's input; grey: it has one channel"
    )
    scale: _Number = parameter(1 / 255, "factor applied to the 8-bit values first")
    mean: tuple[_Number, _Number, _Number] = parameter(
        (0.485, 0.456, 0.406), "subtracted next, per channel of the input"
    )
    std: tuple[_Divisor, _Divisor, _Divisor] = parameter(
        (0.229, 0.224, 0.225), "divided by last, per channel of the input"
    )
    fixed_inputs: tuple[FixedInput, ...] = parameter(
        (), "of an ONNX file that takes more than an image: what each other input gets with every frame, by its name"
    )
    pictures: int = parameter(
        1,
        "how many pictures a frame shows side by side; 2: the left half and the right one, of a stereo camera or of "
        "colours and depth, are what an ONNX file's two inputs take; more, as slices of voxels: its inputs, from left "
        "to right, or the channels or slices of its one input",
        low=1,
        high=MOST_PICTURES,
    )
    one_channel_range: tuple[_Number, _Number] = parameter(
        (0.0, 1.0), "with 2 pictures or more: what black and white are to an input that has one channel, such as metres"
    )
    decoder: Decoder | None = parameter(None, "what the outputs mean; guessed from their shape when absent")
    labels: tuple[str, ...] = parameter((), "names of the classes")
    sha256: OptionalSha256 = parameter(
        "", "of the .pt2 file that factory names, as the card's writer states it: one that has changed is refused"
    )

    @field_validator("input_size", mode="before")
    @classmethod
    def _size(cls, given: Any) -> Any:
        if isinstance(given, str):
            return parse_size(given)
        if given is None or (isinstance(given, (list, tuple)) and len(given) == 2):
            return given
        raise ValueError("give height and width, such as 480x640 or [480, 640]")

    @field_validator("mean", "std", mode="before")
    @classmethod
    def _per_channel(cls, given: Any) -> Any:
        if isinstance(given, (list, tuple)) and len(given) in (1, 3):
            return [*given] * (3 // len(given))
        raise ValueError("give a list of three numbers, one per channel, such as [1, 1, 1], or one for all, as [1]")

    @field_validator("fixed_inputs", mode="before")
    @classmethod
    def _fixed(cls, given: Any) -> Any:
        return parse_fixed_inputs(given)

    @field_validator("labels", mode="before")
    @classmethod
    def _listed(cls, given: Any) -> Any:
        """Take a dictionary from the numbers of all classes too, as ultralytics writes it."""
        if isinstance(given, dict) and given.keys() == set(range(len(given))):
            return [given[number] for number in range(len(given))]
        if isinstance(given, (list, tuple)):
            return given
        raise ValueError("give a list, such as [person, car], or a name for each number from 0, as {0: person, 1: car}")


def is_grey(card: ModelCard) -> bool:
    """Tell whether the model takes grey pictures."""
    return card.channel_order == "grey"


def says_values(card: ModelCard) -> bool:
    """Tell whether the card says which values the input has; otherwise they are ImageNet's by default."""
    return card.model_fields_set >= _VALUES


def is_file(path: Path) -> bool:
    """Tell whether there is such a file; there is none with a name that no file can have."""
    try:
        return path.is_file()
    except OSError:  # of a name that is too long
        return False


def absolute_reference(model: str) -> str:
    """Return a model's reference with the path of its file made absolute; unchanged where it names no file."""
    prefix = TRUSTED if model.startswith(TRUSTED) else ""
    path, colon, factory = expanded(model.removeprefix(prefix)).partition(":")
    return f"{prefix}{Path(path).resolve()}{colon}{factory}" if is_file(Path(path)) else model


def read_card(path: Path) -> ModelCard:
    """Read a card; its paths, which are relative to the card, are joined with the card's folder.

    Raises:
        ModelError: the file cannot be read or says something unusable.
    """
    try:
        content = read_yaml_text(path)
    except (OSError, ValueError) as error:
        raise ModelError(f"model card {path} cannot be read: {error}") from None
    if not isinstance(content, dict) or not content.get("factory"):
        raise ModelError(f"model card {path} must be a mapping with at least 'factory'")
    try:
        card = ModelCard.checked(**{"name": path.stem, **{str(key): value for key, value in content.items()}})
    except (ConfigError, ValueError) as error:  # ValueError: numbers of thousands of digits
        raise ModelError(f"model card {path}: {error}") from None
    if card.fixed_inputs and not card.factory.lower().endswith(".onnx"):
        raise ModelError(
            f"model card {path}: fixed_inputs is for ONNX files. Let {card.factory} be a network that takes an image "
            "alone"
        )
    if is_grey(card):
        _check_grey(card, path)
    if card.pictures > 1:
        _check_pictures(card, path)
    elif "one_channel_range" in card.model_fields_set:
        raise ModelError(
            f"model card {path}: one_channel_range is for frames that show two pictures: say 'pictures: 2', or how "
            "many there are, or give values by scale, mean and std"
        )
    weights = path.parent / expanded(str(card.weights)) if card.weights else None
    factory = card.factory
    trusted, named = (TRUSTED, factory.removeprefix(TRUSTED)) if factory.startswith(TRUSTED) else ("", factory)
    named = expanded(named)
    if is_file(path.parent / named.partition(":")[0]):
        factory = f"{trusted}{path.parent / named}"
    return card.model_copy(update={"weights": weights, "factory": factory})


def _check_grey(card: ModelCard, path: Path) -> None:
    """Refuse a card for grey pictures whose network cannot be given them, or that does not say which values."""
    if not card.factory.lower().endswith(".onnx"):
        raise ModelError(
            f"model card {path}: channel_order grey is for ONNX files. Let {card.factory} be a network that makes one "
            "channel of three by itself"
        )
    is_said = {"mean", "std"} <= card.model_fields_set
    if not is_said or len({*card.mean}) > 1 or len({*card.std}) > 1:
        raise ModelError(
            f"model card {path}: with channel_order grey, give one mean and one std. For values of 0 to 1: "
            "'mean: [0]' and 'std: [1]'"
        )


def _check_pictures(card: ModelCard, path: Path) -> None:
    """Refuse a card for several pictures that asks for what is only there for one."""
    if card.resize != "stretch":
        raise ModelError(
            f"model card {path}: with {card.pictures} pictures in a frame, resize is stretch: the margins of "
            f"{card.resize} would lie around all of them, not around each"
        )
    if card.input_size is not None and card.input_size[1] % card.pictures:
        raise ModelError(
            f"model card {path}: input_size is that of a whole frame with {card.pictures} pictures: choose "
            f"{divisible(card.pictures)}"
        )
    if card.one_channel_range[0] == card.one_channel_range[1]:
        raise ModelError(f"model card {path}: give two different numbers as one_channel_range, of black and of white")
    if not card.scale:
        raise ModelError(f"model card {path}: with a scale of 0, all pictures are alike: the usual one is 1/255")
    if is_grey(card):
        raise ModelError(
            f"model card {path}: leave out 'channel_order: grey': each of the {card.pictures} pictures becomes grey "
            "where its input has one channel"
        )
