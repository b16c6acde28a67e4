# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench``: measurements on a user's own model and clip."""

import typer

from cacheinf_ros.cli.bench.bench_engine import engine
from cacheinf_ros.cli.bench.bench_memory import memory
from cacheinf_ros.cli.bench.bench_stream import stream

bench = typer.Typer(
    help="Measure latency and error. All contenders run interleaved in one process with the same number of threads.",
    no_args_is_help=True,
)
for _command in (stream, engine, memory):
    bench.command()(_command)
