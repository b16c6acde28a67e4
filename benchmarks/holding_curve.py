# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Draws docs/holding.png: what policies for holding answers lose, against the share of frames that they compute.

python -m benchmarks.holding_curve MODELS CLIPS STORE

MODELS holds FastestDet.onnx and espnet_p_2_q_8.safetensors, CLIPS holds car-detection.mp4 and bottle-detection.mp4;
dense decisions are computed once and stored in STORE, so that drawing takes seconds. No time is measured.
"""

from __future__ import annotations

from pathlib import Path

import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.dense_decisions import Point, Recording, kept_decisions
from cacheinf_ros.engine.decisions import MOVING_ALLOWANCE

CLIPS = ("car-detection", "bottle-detection")
FRAMES = {"ESPNet": 130, "FastestDet": 600}
NETWORKS = {"ESPNet": "espnet_p_2_q_8.safetensors", "FastestDet": "FastestDet.onnx"}
PROMISES = (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08)
MAX_LOSS = 0.02
_ROOT = Path(__file__).parents[1]


def main(models: Path, clips: Path, store: Path) -> None:
    """Draw what is lost in the whole, and where things move, for two networks on two fixed cameras.

    Delete STORE where models or clips have changed.
    """
    figure = Figure(figsize=(12, 5.2), layout="constrained")
    axes = figure.subplots(2, len(FRAMES) * len(CLIPS), sharex=True, squeeze=False)
    pairs = [(name, clip) for name in FRAMES for clip in CLIPS]
    for column, (name, clip) in zip(axes.T, pairs, strict=True):
        recording = _recording(name, models, clips / f"{clip}.mp4", store)
        regular, hindsight = recording.regular(), recording.hindsight()
        online = [recording.online(max_loss) for max_loss in PROMISES]
        column[0].set_title(f"{name}, {clip}", fontsize=10)
        for axis, part, allowed in zip(column, ("whole", "moving"), (1.0, MOVING_ALLOWANCE), strict=True):
            _draw(axis, part, {"every Nth frame": regular, "bounded mode": online}, _front(hindsight, part))
            axis.axhline(allowed * MAX_LOSS, color="grey", linewidth=0.8, linestyle=":")
            asked = online[PROMISES.index(MAX_LOSS)]
            axis.plot(asked.computed, getattr(asked.loss, part), "o", color="C1", markersize=9, fillstyle="none")
        column[1].set_xlabel("share of frames computed")
        best = min((p.computed for p in hindsight if p.loss.within(MAX_LOSS)), default=1.0)
        every = min(p.computed for p in regular if p.loss.within(MAX_LOSS))
        print(
            f"{name}, {clip}: {asked.computed:.2f} computed, loss {asked.loss}; best limits {best:.2f}, N {every:.2f}"
        )
    for axis, text in zip(axes[:, 0], ("loss", "loss where things move"), strict=True):
        axis.set_ylabel(text)
    axes[0, 0].legend(fontsize=8)
    figure.savefig(_ROOT / "docs" / "holding.png", dpi=80)


def _draw(axis: Axes, part: str, policies: dict[str, list[Point]], front: list[Point]) -> None:
    for marker, (name, points) in zip("s.", policies.items(), strict=True):
        points = sorted(points, key=lambda point: point.computed)
        losses = [getattr(point.loss, part) for point in points]
        axis.plot([point.computed for point in points], losses, marker + "-", label=name)
    axis.plot([p.computed for p in front], [getattr(p.loss, part) for p in front], "k--", label="limits, hindsight")
    axis.set_xlim(0, 1.02)
    axis.set_ylim(-0.01, 0.1 if part == "whole" else 0.25)


def _front(points: list[Point], part: str) -> list[Point]:
    """Return the Pareto front: the points than which no other computes fewer frames and loses less."""
    front: list[Point] = []
    for point in sorted(points, key=lambda point: (point.computed, getattr(point.loss, part))):
        if not front or getattr(point.loss, part) < getattr(front[-1].loss, part):
            front.append(point)
    return front


def _recording(name: str, models: Path, clip: Path, store: Path) -> Recording:
    return Recording(kept_decisions(models / NETWORKS[name], clip, FRAMES[name], store))


if __name__ == "__main__":
    typer.run(main)
