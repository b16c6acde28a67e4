# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Plots of the memory paper's figures: where each tensor lies, over the operators."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from cacheinf_ros.memory import TensorRecord
from cacheinf_ros.memory.records import profiles

_COLOURS = 10  # number of colours in matplotlib's cycle


def plot_lives(records: Sequence[TensorRecord], offsets: Sequence[int], title: str, label: str, path: Path) -> None:
    """Draw each tensor as a rectangle from its first to its last operator, as high as its size, from its offset on."""
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    axes = figure.subplots()
    for number, (record, offset) in enumerate(zip(records, offsets, strict=True)):
        width = record.last + 1 - record.first
        colour = f"C{number % _COLOURS}"
        axes.add_patch(Rectangle((record.first, offset), width, record.size, facecolor=colour, edgecolor="black"))
        middle = record.first + width / 2, offset + record.size / 2
        axes.annotate(f"{record.name}: {record.size}", middle, ha="center", va="center", fontsize="small")
    operators = 1 + max(record.last for record in records)
    top = max(offset + record.size for record, offset in zip(records, offsets, strict=True))
    axes.set_xticks([operator + 0.5 for operator in range(operators)], [str(operator) for operator in range(operators)])
    axes.set(title=title, xlabel="operator", ylabel=label, xlim=(0, operators), ylim=(0, top))
    _save(figure, path)


def plot_profiles(records: Sequence[TensorRecord], title: str, path: Path) -> None:
    """Draw the tensors that are alive while each operator runs, the largest at the bottom: their sum is its breadth."""
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    axes = figure.subplots()
    for operator, profile in profiles(records):
        bottom = 0
        for index in profile:
            size = records[index].size
            bars = axes.bar(operator, size, bottom=bottom, color=f"C{index % _COLOURS}", edgecolor="black")
            axes.bar_label(bars, [str(size)], label_type="center", fontsize="small")
            bottom += size
    axes.set(title=title, xlabel="operator", ylabel="breadth")
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
