# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import wraps
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from cacheinf_ros.config import Config

ModelReference = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        help="torchvision:NAME, package.module:factory, file.py:factory, a .pt2 or .onnx file, a card .yaml, or the "
        "name of a built-in model (see `cacheinf models list`).",
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
        help="A video, a bag (bag:/topic picks a topic), a folder of images, or scene:NAME with NAME one of fixed, "
        "pan, handheld, forward, turn, parallax.",
    ),
]
Threads = Annotated[int, typer.Option(min=1, max=256, help="Threads for every contender alike.")]
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the figures to this file.")]


Options = TypeVar("Options")


def with_options(options: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Let a command take its options as one object, where they would be a dozen parameters.

    Args:
        options: a dataclass; each field is annotated as a parameter of a typer command would be.
    """
    hints = get_type_hints(options, include_extras=True)
    parameters = [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(options)  # type: ignore[arg-type]  # a dataclass
    ]

    def decorate(command: Callable[[Options], None]) -> Callable[..., None]:
        @wraps(command)
        def run(**values: Any) -> None:
            command(options(**values))

        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
        run.__annotations__ = {}
        return run

    return decorate


def described(config: type[Config], field: str, **options: Any) -> Any:
    """A typer option for a field of a configuration: its description and range are written there only."""
    info = config.model_fields[field]
    limits = {type(m).__name__.lower(): m for m in info.metadata}
    low, high = getattr(limits.get("ge"), "ge", None), getattr(limits.get("le"), "le", None)
    return typer.Option(help=f"{(info.description or field).capitalize()}.", min=low, max=high, **options)
