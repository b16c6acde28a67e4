# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench offload-plot``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def offload_plot(
    reports: Annotated[list[Path], typer.Argument(help="JSON files of `cacheinf bench offload`.", exists=True)],
    out: Annotated[Path, typer.Option(help="The picture.")] = Path("offload.png"),
) -> None:
    """Latency by bandwidth, and over time where the link follows a trace.

    Example: cacheinf bench offload-plot fixed.json wireless.json --out offload.png
    """
    from benchmarks.offload.plot import plot_offload

    plot_offload([json.loads(path.read_text(encoding="utf-8")) for path in reports], out)
