# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf catalog``: cheaper variants of a model, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from cacheinf_ros.catalog import PriceConfig
from cacheinf_ros.catalog.build.catalog_frames import BUILT_IN
from cacheinf_ros.catalog.build.finetune import TuningConfig
from cacheinf_ros.catalog.build.techniques import BITS, Technique
from cacheinf_ros.cli.catalog_show import draw_catalog, print_catalog
from cacheinf_ros.cli.options import Size, Threads, with_options
from cacheinf_ros.cli.output_files import checked_folder, checked_picture
from cacheinf_ros.config import parse_size
from cacheinf_ros.energy import PowerModel
from cacheinf_ros.errors import CatalogError

catalogs = typer.Typer(help="Catalogs of a model's variants: how accurate, and what each costs.", no_args_is_help=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameOptions:
    """Options of ``cacheinf catalog build`` for the frames to tune on, and those to measure accuracy on."""

    data: Annotated[
        list[str],
        typer.Option(
            "--data",
            help=f"Frames for fine-tuning, repeatable: a source as of `cacheinf replay`, or {BUILT_IN}: "
            "scenes that suit the model. Without it nothing is fine-tuned. Labels are not needed.",
        ),
    ] = field(default_factory=list)
    held_out: Annotated[
        list[str],
        typer.Option(
            help="Other frames, repeatable, on which accuracy is measured; likewise, or labelled pictures: "
            "FOLDER/CLASS/picture.png for a classifier, a folder with a file in COCO's format for a detector, "
            "one with a folder of class maps, labels/NAME.png, for a segmenter. Without "
            "labels the original counts as right."
        ),
    ] = field(default_factory=lambda: [BUILT_IN])
    frames: Annotated[int, typer.Option(min=2, help="How many frames are used for fine-tuning.")] = 120
    held_out_frames: Annotated[int, typer.Option(min=1, help="How many are held out.")] = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """Options of ``cacheinf catalog build`` for what to make, from what, and under which conditions."""

    model: Annotated[str, typer.Argument(help="A built-in model or any reference (see `cacheinf models list`).")]
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the catalog.", callback=checked_folder)] = Path(
        "catalog"
    )
    on: FrameOptions
    size: Size = None
    specialise: Annotated[
        bool, typer.Option("--specialise", help="Also store what specialists for the classes seen now are made from.")
    ] = False
    labelled: Annotated[
        str,
        typer.Option(
            help="For --specialise: pictures of the model's classes, LABELLED/ATTRIBUTE/CLASS/picture.png; or scenes: "
            "the built-in ones."
        ),
    ] = "scenes"
    scenes: Annotated[
        int, typer.Option(min=120, max=100_000, help="For --specialise: built-in scenes, four pictures of each.")
    ] = 300
    techniques: Annotated[
        str,
        typer.Option(metavar="NAMES", help=f"Separated by commas: {', '.join(t.value for t in Technique)}; or all."),
    ] = "all"
    bits: Annotated[str, typer.Option(help="Of stored weights, separated by commas: 32, 16, 8.")] = "32,16,8"
    int8: Annotated[
        bool, typer.Option("--int8/--no-int8", help="Also make variants that are computed in int8; needs --data.")
    ] = True
    tuning: TuningConfig
    prices: PriceConfig
    power: PowerModel
    threads: Threads = 2


@catalogs.command()
@with_options(BuildOptions)
def build(options: BuildOptions) -> None:
    """Derive cheaper variants of a model, fine-tune and measure them, and keep those that nothing beats.

    Example: cacheinf catalog build scenenet --data built-in --out scenenet-catalog
    """
    from cacheinf_ros.catalog.build.add_specialists import add_specialise, check_specialisable, labelled_data
    from cacheinf_ros.catalog.build.catalog_builder import BuildConditions, Builder
    from cacheinf_ros.catalog.build.catalog_frames import load_data
    from cacheinf_ros.graph import absolute_reference, load_model

    chosen, widths = _techniques(options.techniques), _bits(options.bits)
    loaded = load_model(options.model, input_size=parse_size(options.size))
    if options.specialise:  # a model that cannot be specialised is reported before minutes of building
        check_specialisable(loaded)
        pictures = labelled_data(loaded, options.labelled, options.scenes, options.tuning.seed)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task("reading frames")
        on = options.on
        frames = load_data(loaded.card, on.data, on.held_out, (on.frames, on.held_out_frames))
        conditions = BuildConditions(
            tuning=options.tuning, prices=options.prices, power=options.power, threads=options.threads
        )
        builder = Builder(absolute_reference(options.model), loaded, frames, options.out, conditions)

        def say(text: str) -> None:
            bar.update(task, description=text)

        built = builder.build(chosen, widths, say, int8=options.int8)
        if options.specialise:
            add_specialise(built, pictures, threads=options.threads, say=say)
    print_catalog(built)


@catalogs.command()
def show(
    folder: Annotated[Path, typer.Argument(help="A folder that `cacheinf catalog build` has written.")],
    plot: Annotated[
        Path | None, typer.Option(help="Draw accuracy against energy, memory and latency.", callback=checked_picture)
    ] = None,
) -> None:
    """Print a catalog: every variant that is kept, by place, and what was left out.

    Example: cacheinf catalog show scenenet-catalog --plot front.png
    """
    from cacheinf_ros.catalog import read_catalog

    found = read_catalog(folder)
    print_catalog(found)
    if plot is not None:
        draw_catalog(found, plot)
        typer.echo(f"wrote {plot}")


def _techniques(text: str) -> tuple[Technique, ...]:
    if text == "all":
        return tuple(Technique)
    known = {technique.value: technique for technique in Technique}
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise CatalogError(f"technique {name!r}: known are {', '.join(known)}")
    return tuple(dict.fromkeys(known[name] for name in names))


def _bits(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not set(parts) <= set(map(str, BITS)):
        raise CatalogError(f"bits {text!r}: expected some of {', '.join(map(str, BITS))}, separated by commas")
    return tuple(dict.fromkeys(map(int, parts)))
