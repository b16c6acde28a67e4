# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Functions that the benchmark commands share: show progress, and write the report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from cacheinf_ros.cli.output_files import writing

DEFAULT_SCENE = "scene:fixed"


def write_report(path: Path | None, report: dict[str, Any] | list[Any]) -> None:
    """Write a report as JSON, where a file is given for it; raises :class:`ConfigError` where it cannot be written."""
    if path is not None:
        with writing(path):
            path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


@contextmanager
def shown_progress(first: str) -> Iterator[Callable[[str], None]]:
    """Show what is being done, and for how long; yields a function that takes the next text."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task(first)
        yield lambda text: bar.update(task, description=text)
