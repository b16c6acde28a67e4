# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""All commands of ``cacheinf``; importing them needs every package that one of them does."""

from __future__ import annotations

import typer

from cacheinf_ros.cli.advise_command import advise
from cacheinf_ros.cli.bench import bench
from cacheinf_ros.cli.catalog import catalogs
from cacheinf_ros.cli.catalog_share import share
from cacheinf_ros.cli.demo import demo
from cacheinf_ros.cli.doctor import doctor
from cacheinf_ros.cli.fleet import fleet
from cacheinf_ros.cli.laboratory import add_laboratory
from cacheinf_ros.cli.memory import memory
from cacheinf_ros.cli.models import models
from cacheinf_ros.cli.profile import profile
from cacheinf_ros.cli.quantise_command import quantise
from cacheinf_ros.cli.replay_command import replay
from cacheinf_ros.cli.soak_command import soak

app = typer.Typer(
    help="CNN inference on a camera stream that recomputes only what changed.\n\n"
    "New here? [bold]cacheinf demo[/] shows it at work, [bold]cacheinf doctor[/] says what this machine can do.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(replay)
app.command()(advise)
add_laboratory(bench)
app.add_typer(bench, name="bench")
app.add_typer(models, name="models")
catalogs.command()(share)
app.add_typer(catalogs, name="catalog")
app.add_typer(fleet, name="fleet")
app.command()(memory)
app.command()(profile)
app.command()(quantise)
app.command()(soak)
app.command()(doctor)
