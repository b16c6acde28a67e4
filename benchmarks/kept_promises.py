# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Prints how well bounded mode keeps its promise by holding answers, on every pair of a network and a recording.

python -m benchmarks.kept_promises STORE --models FastestDet.onnx ... --sources clip.mp4 davis/dog ... --begin 0,5,10,15

Dense decisions are computed once and stored in STORE; bounded mode then runs on them in seconds, beginning at each of
the given frames. So the results are shares of frames and losses, not times.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.dense_decisions import WARM_UP, Point, Recording, is_espnet, kept_decisions

MAX_LOSS = 0.02
_LEAST_JUDGED = 8  # frames
_FRAMES, _FRAMES_OF_ESPNET = 600, 130
_LARGEST_GAIN = 0.05  # the largest gain that counts in a mean, where a few decisions flicker in our favour


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Results of bounded mode on a recording from frame ``first`` on, and of skipping as large a share of frames."""

    network: str
    recording: str
    first: int
    bounded: Point
    skipping: Point


def main(store: Path, models: list[Path] = [], sources: list[Path] = [], begin: str = "0") -> None:  # noqa: B006
    """Print what was computed and lost by network, and each broken promise."""
    runs = [run for model in models for source in sources for run in _runs(model, source, store, begin)]
    if not runs:
        raise typer.BadParameter(f"no source has {WARM_UP + _LEAST_JUDGED} frames, or no --models or --sources given")
    table = Table("network", "runs", "broken", "frames computed", "loss, whole / moving", "skipping: broken")
    for name in [*dict.fromkeys(run.network for run in runs), "all"]:
        table.add_row(name, *_row([run for run in runs if name in (run.network, "all")]))
    console = Console(width=120)
    console.print(table)
    for run in runs:
        if not run.bounded.loss.within(MAX_LOSS):
            loss = run.bounded.loss
            console.print(
                f"broken: {run.network} on {run.recording} from frame {run.first}: {loss.whole:.3f} / {loss.moving:.3f}"
                f" at {run.bounded.computed:.0%}"
            )


def _runs(model: Path, source: Path, store: Path, begin: str) -> list[Run]:
    decided = kept_decisions(model, source, _FRAMES_OF_ESPNET if is_espnet(model) else _FRAMES, store)
    runs = []
    for first in (int(text) for text in begin.split(",")):
        if len(decided.pictures) - first >= WARM_UP + _LEAST_JUDGED:
            recording = Recording(decided, first)
            bounded = recording.online(MAX_LOSS)
            runs.append(
                Run(
                    network=model.stem,
                    recording=source.stem,
                    first=first,
                    bounded=bounded,
                    skipping=recording.skipping(bounded.computed),
                )
            )
    return runs


def _row(runs: list[Run]) -> list[str]:
    def mean(part: str) -> float:
        return float(np.mean([max(getattr(run.bounded.loss, part), -_LARGEST_GAIN) for run in runs]))

    def broken(points: list[Point]) -> int:
        return sum(not point.loss.within(MAX_LOSS) for point in points)

    return [
        str(len(runs)),
        str(broken([run.bounded for run in runs])),
        f"{np.mean([run.bounded.computed for run in runs]):.1%}",
        f"{mean('whole'):.4f} / {mean('moving'):.4f}",
        str(broken([run.skipping for run in runs])),
    ]


if __name__ == "__main__":
    typer.run(main)
