# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from cacheinf_ros.cli.output_files import checked_file
from cacheinf_ros.config import Config

ModelReference = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        help="torchvision:NAME, package.module:factory, file.py:factory, an .onnx file, trusted:FILE.pt2, a card "
        ".yaml, or the name of a built-in model (see `cacheinf models list`).",
    ),
]
Weights = Annotated[Path | None, typer.Option(help="Safetensors or a state dict for the model.")]
Size = Annotated[
    str | None,
    typer.Option(metavar="HEIGHTxWIDTH", help="Size of the model's input; without it the card's, or 224x224."),
]
SourceReference = Annotated[
    str,
    typer.Option(
        "--source",
        "-s",
        help="A video, a bag (bag:/topic picks a topic), a folder of images, either with ?values=7000..9000 for "
        "raw values of a thermal or depth camera, a bag with ?voxels=CELLS,X,Y,Z for clouds of points, or scene:NAME "
        "with NAME one of fixed, pan, handheld, forward, turn, parallax.",
    ),
]
Threads = Annotated[int, typer.Option(min=1, max=256, help="Threads for every contender alike.")]
JsonFile = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Write the figures to this file.", callback=checked_file),
]


Options = TypeVar("Options")


def with_options(options: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Let a command take its options as one object, where they would be a dozen parameters.

    Args:
        options: a dataclass; each field is annotated as a parameter of a typer command would be, or is another such
            dataclass or a :class:`Config`, each field of which becomes an option.
    """

    def decorate(command: Callable[[Options], None]) -> Callable[..., None]:
        @wraps(command)
        def run(**values: Any) -> None:
            command(_built(options, values))

        run.__signature__ = Signature(_parameters(options))  # type: ignore[attr-defined]  # what typer reads
        run.__annotations__ = {}
        return run

    return decorate


def _parameters(options: type[Any]) -> list[Parameter]:
    """Return the parameters that typer is to ask for, in the order of the fields."""
    if issubclass(options, Config):
        return _parameters_of(options)
    hints, found = get_type_hints(options, include_extras=True), []
    for field in fields(options):
        kind = hints[field.name]
        if _is_group(kind):
            found += _parameters(kind)
        else:
            found.append(Parameter(field.name, Parameter.KEYWORD_ONLY, default=_default(field), annotation=kind))
    return found


def _built(options: type[Options], values: dict[str, Any]) -> Options:
    """Build the options from values that typer has read, with those of each group put together."""
    if issubclass(options, Config):
        return options.checked(**{field: values[field] for field in options.model_fields})
    hints = get_type_hints(options)
    return options(
        **{
            field.name: _built(hints[field.name], values) if _is_group(hints[field.name]) else values[field.name]
            for field in fields(options)  # type: ignore[arg-type]  # a dataclass
        }
    )


def _is_group(kind: Any) -> bool:
    return isinstance(kind, type) and (issubclass(kind, Config) or is_dataclass(kind))


def _default(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return Parameter.empty if field.default_factory is MISSING else field.default_factory()


def _parameters_of(config: type[Config]) -> list[Parameter]:
    return [
        Parameter(
            name, Parameter.KEYWORD_ONLY, default=field.default,
            annotation=Annotated[field.annotation, described(config, name)],
        )
        for name, field in config.model_fields.items()
    ]  # fmt: skip


def described(config: type[Config], field: str, **options: Any) -> Any:
    """Return a typer option for a field of a configuration, whose description and range are written only there."""
    info = config.model_fields[field]
    limits = {type(m).__name__.lower(): m for m in info.metadata}
    low, high = getattr(limits.get("ge"), "ge", None), getattr(limits.get("le"), "le", None)
    text = info.description or field
    return typer.Option(help=f"{text[:1].upper()}{text[1:]}.", min=low, max=high, **options)
