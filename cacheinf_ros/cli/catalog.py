# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf catalog``: variants of a model that cost less, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from cacheinf_ros.catalog.build.catalog_frames import BUILT_IN
from cacheinf_ros.catalog.build.finetune import TuningConfig
from cacheinf_ros.catalog.build.techniques import Technique
from cacheinf_ros.catalog.prices import PriceConfig
from cacheinf_ros.catalog.variant import Place
from cacheinf_ros.cli.catalog_specialise import print_specialise
from cacheinf_ros.cli.options import Size, Threads, described
from cacheinf_ros.config import parse_size
from cacheinf_ros.energy.power_model import PowerModel
from cacheinf_ros.errors import CatalogError

if TYPE_CHECKING:
    from cacheinf_ros.catalog.catalog_folder import CatalogFolder, VariantEntry

catalogs = typer.Typer(help="Catalogs of a model's variants: how accurate, and what each costs.", no_args_is_help=True)
_TUNING, _PRICES, _POWER = TuningConfig(), PriceConfig(), PowerModel()


@catalogs.command()
def build(
    model: Annotated[str, typer.Argument(help="A built-in model or any reference (see `cacheinf models list`).")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the catalog.")] = Path("catalog"),
    data: Annotated[
        list[str],
        typer.Option(
            "--data",
            help=f"Frames for fine-tuning, repeatable: a source as of `cacheinf replay`, or {BUILT_IN}: "
            "scenes that suit the model. Without it nothing is fine-tuned. Labels are not needed.",
        ),
    ] = [],  # noqa: B006  # typer's way to say "none"
    held_out: Annotated[
        list[str], typer.Option(help="Other frames, repeatable, on which accuracy is measured; likewise.")
    ] = [BUILT_IN],  # noqa: B006
    size: Size = None,
    specialise: Annotated[
        bool, typer.Option("--specialise", help="Also store what specialists for the classes seen now are made from.")
    ] = False,
    labelled: Annotated[
        str,
        typer.Option(
            help="For --specialise: pictures of the model's classes, LABELLED/ATTRIBUTE/CLASS/picture.png; or scenes: "
            "the built-in ones."
        ),
    ] = "scenes",
    scenes: Annotated[
        int, typer.Option(min=60, max=100_000, help="For --specialise: built-in scenes, four pictures of each.")
    ] = 300,
    techniques: Annotated[
        str,
        typer.Option(metavar="NAMES", help=f"Separated by commas: {', '.join(t.value for t in Technique)}; or all."),
    ] = "all",
    bits: Annotated[str, typer.Option(help="Of stored weights, separated by commas: 32, 16, 8.")] = "32,16,8",
    frames: Annotated[int, typer.Option(min=2, help="How many frames are used for fine-tuning.")] = 120,
    held_out_frames: Annotated[int, typer.Option(min=1, help="How many are held out.")] = 120,
    steps: Annotated[int, described(TuningConfig, "steps")] = _TUNING.steps,
    batch: Annotated[int, described(TuningConfig, "batch")] = _TUNING.batch,
    learning_rate: Annotated[float, described(TuningConfig, "learning_rate")] = _TUNING.learning_rate,
    seed: Annotated[int, described(TuningConfig, "seed")] = _TUNING.seed,
    server_speedup: Annotated[float, described(PriceConfig, "server_speedup")] = _PRICES.server_speedup,
    link_mbit_s: Annotated[float, described(PriceConfig, "link_mbit_s")] = _PRICES.link_mbit_s,
    link_delay_ms: Annotated[float, described(PriceConfig, "link_delay_ms")] = _PRICES.link_delay_ms,
    storage_mb_s: Annotated[float, described(PriceConfig, "storage_mb_s")] = _PRICES.storage_mb_s,
    price_server_s: Annotated[float, described(PriceConfig, "price_server_s")] = _PRICES.price_server_s,
    price_mb: Annotated[float, described(PriceConfig, "price_mb")] = _PRICES.price_mb,
    idle_w: Annotated[float, described(PowerModel, "idle_w")] = _POWER.idle_w,
    compute_w: Annotated[float, described(PowerModel, "compute_w")] = _POWER.compute_w,
    transmit_w: Annotated[float, described(PowerModel, "transmit_w")] = _POWER.transmit_w,
    receive_w: Annotated[float, described(PowerModel, "receive_w")] = _POWER.receive_w,
    threads: Threads = 2,
) -> None:
    """Derive cheaper variants of a model, fine-tune and measure them, and keep those that nothing beats.

    Example: cacheinf catalog build scenenet --data built-in --out scenenet-catalog
    """
    from cacheinf_ros.catalog.build.add_specialists import add_specialise, check_specialisable, labelled_data
    from cacheinf_ros.catalog.build.catalog_builder import Builder
    from cacheinf_ros.catalog.build.catalog_frames import load_data
    from cacheinf_ros.graph import load_model

    chosen, widths = _techniques(techniques), _bits(bits)
    loaded = load_model(model, input_size=parse_size(size))
    if specialise:  # what cannot be specialised says so before minutes of building
        check_specialisable(loaded)
        pictures = labelled_data(loaded, labelled, scenes, seed)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task("reading frames")
        builder = Builder(
            _lasting(model), loaded, load_data(loaded.card, data, held_out, (frames, held_out_frames)), out,
            tuning=TuningConfig.checked(steps=steps, batch=batch, learning_rate=learning_rate, seed=seed),
            prices=PriceConfig.checked(
                server_speedup=server_speedup, link_mbit_s=link_mbit_s, link_delay_ms=link_delay_ms,
                storage_mb_s=storage_mb_s, price_server_s=price_server_s, price_mb=price_mb,
            ),
            power=PowerModel.checked(idle_w=idle_w, compute_w=compute_w, transmit_w=transmit_w, receive_w=receive_w),
            threads=threads,
        )  # fmt: skip

        def say(text: str) -> None:
            bar.update(task, description=text)

        built = builder.build(chosen, widths, say)
        if specialise:
            add_specialise(built, pictures, threads=threads, say=say)
    _print(built)


@catalogs.command()
def show(
    folder: Annotated[Path, typer.Argument(help="A folder that `cacheinf catalog build` has written.")],
    plot: Annotated[Path | None, typer.Option(help="Draw accuracy against energy, memory and latency.")] = None,
) -> None:
    """Print a catalog: every variant that is kept, by place, and what was left out.

    Example: cacheinf catalog show scenenet-catalog --plot front.png
    """
    from cacheinf_ros.catalog.catalog_folder import read_catalog

    found = read_catalog(folder)
    _print(found)
    if plot is not None:
        draw_catalog(found, plot)
        typer.echo(f"wrote {plot}")


def draw_catalog(found: CatalogFolder, path: Path) -> None:
    """Accuracy against energy, memory and latency on the device: those that are kept, and pale the dominated."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4), layout="constrained")
    axes_row: Any = figure.subplots(1, 3, sharey=True)
    kept, dominated = found.file.variants, found.file.dominated
    panels = (
        ("energy, J per frame", "energy_j", 1),
        ("memory, MB", "memory_bytes", 1e6),
        ("latency, ms", "latency_ms", 1),
    )
    for axes, (label, field, unit) in zip(axes_row, panels, strict=True):
        for entries, style in ((dominated, {"color": "#b0b4ba"}), (kept, {"color": "#1a73e8"})):
            costs = [getattr(entry.costs[Place.DEVICE], field) / unit for entry in entries]
            axes.scatter(costs, [entry.accuracy for entry in entries], s=22, **style)
        stairs = _stairs(kept, field, unit)
        axes.step(*zip(*stairs, strict=True), where="post", color="#1a73e8", linewidth=1)
        for x, y, name in _named(kept, field, unit):
            axes.annotate(name, (x, y), fontsize="xx-small", xytext=(3, 3), textcoords="offset points")
        axes.set(xlabel=f"{label}, on the device", xlim=(0, None))
        axes.grid(alpha=0.25)
    axes_row[0].set_ylabel(found.file.measure)
    figure.suptitle(f"{found.file.name}: kept blue, dominated grey")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _stairs(entries: Sequence[VariantEntry], field: str, unit: float) -> list[tuple[float, float]]:
    """The most accuracy that a cost buys, from the cheapest on."""
    stairs: list[tuple[float, float]] = []
    for cost, accuracy in sorted((getattr(e.costs[Place.DEVICE], field) / unit, e.accuracy) for e in entries):
        if not stairs or accuracy > stairs[-1][1]:
            stairs.append((cost, accuracy))
    return stairs


def _named(entries: Sequence[VariantEntry], field: str, unit: float) -> list[tuple[float, float, str]]:
    """One name for variants of one architecture, which differ in the bits of their weights only."""
    found: dict[object, tuple[float, float, str]] = {}
    for entry in entries:
        place = getattr(entry.costs[Place.DEVICE], field) / unit, entry.accuracy
        found.setdefault(entry.changes, (*place, entry.name))
    return list(found.values())


def _print(found: CatalogFolder) -> None:
    console = Console()
    file = found.file
    title = f"{file.name}, input {'x'.join(map(str, file.input_size))}; accuracy: {file.measure}"
    table = Table(
        Column("variant", no_wrap=True), "right", "file MB", Column("place", no_wrap=True), "mJ", "ms", "MB", "load J",
        "$/10⁶", title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False,
    )  # fmt: skip
    for entry in file.variants:
        head = (entry.name, f"{entry.accuracy:.3f}", f"{entry.stored_bytes / 1e6:.3f}")
        for place, cost in entry.costs.items():
            table.add_row(
                *head, place.value, f"{1e3 * cost.energy_j:.1f}", f"{cost.latency_ms:.2f}",
                f"{cost.memory_bytes / 1e6:.2f}", f"{cost.load_energy_j:.2f}", f"{1e6 * cost.money:.2f}",
            )  # fmt: skip
            head = ("", "", "")
    console.print(table)
    console.print(f"{file.data}; {', '.join(f'{key} {value}' for key, value in file.conditions.items())}")
    if file.dominated:
        names = ", ".join(f"{entry.name} ({entry.accuracy:.3f})" for entry in file.dominated)
        console.print(f"dominated, and not kept: {names}", highlight=False)
    for name, reason in file.left_out.items():
        console.print(f"left out: {name}: {reason}", highlight=False)
    print_specialise(found, console)


def _techniques(text: str) -> tuple[Technique, ...]:
    if text == "all":
        return tuple(Technique)
    known = {technique.value: technique for technique in Technique}
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise CatalogError(f"technique {name!r}: known are {', '.join(known)}")
    return tuple(known[name] for name in names)


def _bits(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise CatalogError(f"bits {text!r}: expected numbers separated by commas, such as 32,16,8") from None


def _lasting(reference: str) -> str:
    """The reference, from wherever it will be read: files by their absolute paths."""
    file, colon, factory = reference.partition(":")
    return f"{Path(file).resolve()}{colon}{factory}" if Path(file).is_file() else reference
