# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf catalog share``: trains several heads on one trunk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cacheinf_ros.cli.options import Size, Weights
from cacheinf_ros.cli.output_files import checked_folder
from cacheinf_ros.config import parse_size
from cacheinf_ros.errors import ConfigError

if TYPE_CHECKING:
    from cacheinf_ros.catalog.heads import Head, SharedModel
    from cacheinf_ros.graph import Model

_SCENES = "scenes"


def share(
    model: Annotated[str, typer.Argument(help="A built-in model or any reference (see `cacheinf models list`).")],
    out: Annotated[Path, typer.Option(help="Folder of the heads.", callback=checked_folder)],
    heads: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Attributes, separated by commas. Of built-in scenes: photograph, object, crowd, light.",
        ),
    ] = "object,crowd,light",
    data: Annotated[
        str, typer.Option(help="A folder of pictures, DATA/ATTRIBUTE/CLASS/picture.png; or scenes: the built-in ones.")
    ] = _SCENES,
    weights: Weights = None,
    size: Size = None,
    cut_at: Annotated[
        str, typer.Option(help="Where the trunk ends: a tensor (`cacheinf models inspect MODEL --all`, by output).")
    ] = "",
    scenes: Annotated[int, typer.Option(min=60, max=100_000, help="Built-in scenes, four pictures of each.")] = 300,
    seed: Annotated[int, typer.Option(min=0, help="Of the built-in scenes.")] = 0,
) -> None:
    """Train a head for each attribute on the features of a model's trunk, which is then computed once for all of them.

    The trunk keeps its weights. Accuracy is that on pictures which were not trained on.

    Example: cacheinf catalog share scenenames --heads object,crowd,light --out heads
    """
    from cacheinf_ros.catalog import trunk_model
    from cacheinf_ros.catalog.heads import check_name, read_heads, train_heads, write_heads
    from cacheinf_ros.catalog.labelled_pictures import (
        PICTURES_PER_SCENE,
        SCENE_ATTRIBUTES,
        folder_labels,
        folder_samples,
        scene_samples,
    )
    from cacheinf_ros.graph import absolute_reference, load_model

    wanted = tuple(name.strip() for name in heads.split(","))
    known = SCENE_ATTRIBUTES if data == _SCENES else folder_labels(Path(data))
    for name in wanted:
        if name not in known:
            raise ConfigError(f"attribute {name!r}: {data} has {', '.join(known)}")
        check_name(name)
    whole = load_model(model, weights=weights, input_size=parse_size(size))
    trunk = trunk_model(whole, cut_at)
    if data == _SCENES:
        samples = scene_samples(scenes, PICTURES_PER_SCENE, whole.input_size, seed)
    else:
        samples = folder_samples(Path(data), wanted)
    trained = train_heads(trunk, samples, {name: known[name] for name in wanted})
    source = f"{scenes} built-in scenes, seed {seed}" if data == _SCENES else data
    write_heads(
        out,
        trained,
        trunk,
        model=absolute_reference(model),
        weights=str(weights.resolve()) if weights else "",
        cut_at=cut_at,
        data=source,
    )
    _print(trained, read_heads(out).shared(), whole, out)


def _print(trained: tuple[Head, ...], shared: SharedModel, whole: Model, out: Path) -> None:
    from cacheinf_ros.catalog.heads import CARD

    table = Table("head", "classes", "accuracy", "samples", title=f"heads on the trunk of {escape(whole.name)}")
    for head in trained:
        table.add_row(escape(head.name), escape(", ".join(head.labels)), f"{head.accuracy:.1%}", str(head.samples))
    console = Console()
    console.print(table)
    alone = whole.graph.total_flops
    console.print(
        f"all together: {shared.merged.flops / alone:.2f} times the operations of {whole.name} alone, "
        f"instead of {shared.merged.flops_apart / alone:.2f}; written to {out}\n"
        f"{out / CARD} is a model: give it to nodes and commands as `model`",
        markup=False,
    )
