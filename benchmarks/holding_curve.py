# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Draws docs/holding.png: what policies of holding answers lose, against the share of the frames that they compute.

python -m benchmarks.holding_curve MODELS CLIPS STORE

MODELS has FastestDet.onnx and espnet_p_2_q_8.safetensors, CLIPS has car-detection.mp4 and bottle-detection.mp4; dense
decisions are computed once and kept in STORE, so that what is drawn takes seconds. No time is measured.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from cacheinf_ros.engine import Preprocessor
from cacheinf_ros.engine.decisions import MOVING_ALLOWANCE, Loss, Score, Task, task_of_model
from cacheinf_ros.engine.dense_backends import Backend, prepare
from cacheinf_ros.graph import Model, load_model
from cacheinf_ros.pipeline.answer_holder import AnswerHolder
from cacheinf_ros.pipeline.burst import LONGEST, Burst
from cacheinf_ros.pipeline.picture_change import Change, ChangeMeter
from cacheinf_ros.sources import open_source

CLIPS = ("car-detection", "bottle-detection")
FRAMES = {"ESPNet": 130, "FastestDet": 600}
WARM_UP = 26  # frames that are not judged: bounded mode's first burst is among them
PROMISES = (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08)
MAX_LOSS = 0.02
_STEPS = 16  # limits of each kind that are tried with hindsight
_MOST_PIXELS = 32_768  # of class maps, as in bounded mode
_ROOT = Path(__file__).parents[1]
Image = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A policy on a recording: the share of the frames that it computes, and what it loses."""

    computed: float
    loss: Loss


class Recording:
    """A recording with the dense decisions of a model: every policy can be judged on it."""

    def __init__(self, model: Model, pictures: list[Image], outputs: Any, task: Task[Any]) -> None:
        """``pictures``: the thumbnails; ``outputs``: what was decided on each."""
        self._input_size = Preprocessor(model.card).size
        self._pictures, self._decisions, self._task = pictures, outputs, task
        self._everything = Burst(task, ChangeMeter(self._input_size))
        for picture, decision in zip(pictures, outputs, strict=True):
            self._everything.add(picture, decision)
        self._dense = sum(self._everything.scores(range(len(pictures)))[WARM_UP:], Score())

    def regular(self) -> list[Point]:
        """Every frame computed, every second one, ...; each the mean over where it begins."""
        points = []
        for period in range(1, LONGEST + 2):
            of_phases = [
                self._judge([max(0, now - (now - phase) % period) for now in range(len(self._pictures))])
                for phase in range(period)
            ]
            points.append(_mean(of_phases))
        return points

    def hindsight(self) -> list[Point]:
        """Fixed limits on change, whatever they may be."""
        changes = self._everything.changes(LONGEST)
        ranks = np.linspace(0, 1, _STEPS)
        largest = np.unique(np.quantile([change.largest for change in changes], ranks))
        mean = np.unique(np.quantile([change.mean for change in changes], ranks))
        limits = [Change(largest=float(a), mean=float(b)) for a in largest for b in mean]
        return [self._judge(self._everything.held(limit)) for limit in limits]

    def online(self, max_loss: float) -> Point:
        """Bounded mode, which knows nothing beforehand."""
        holder = AnswerHolder(self._task, self._input_size, max_loss)
        answers: list[int] = []
        for now, (picture, decision) in enumerate(zip(self._pictures, self._decisions, strict=True)):
            if holder.stands(picture):  # a thumbnail's thumbnail is itself
                answers.append(answers[-1])
            else:
                holder.computed(decision)
                answers.append(now)
        return self._judge(answers)

    def _judge(self, answers: list[int]) -> Point:
        ours = sum(self._everything.scores(answers)[WARM_UP:], Score())
        computed = np.mean([answer == now for now, answer in enumerate(answers)][WARM_UP:])
        return Point(computed=float(computed), loss=Loss.of(ours, self._dense))


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
    """Those than which no other computes fewer frames and loses less."""
    front: list[Point] = []
    for point in sorted(points, key=lambda point: (point.computed, getattr(point.loss, part))):
        if not front or getattr(point.loss, part) < getattr(front[-1].loss, part):
            front.append(point)
    return front


def _mean(points: list[Point]) -> Point:
    return Point(
        computed=float(np.mean([point.computed for point in points])),
        loss=Loss(
            whole=float(np.mean([point.loss.whole for point in points])),
            moving=float(np.mean([point.loss.moving for point in points])),
        ),
    )


def _recording(name: str, models: Path, clip: Path, store: Path) -> Recording:
    model = _model(name, models)
    stored = store / f"{name}-{clip.stem}.pickle"
    if not stored.exists():
        store.mkdir(parents=True, exist_ok=True)
        stored.write_bytes(pickle.dumps(_decided(model, clip, FRAMES[name])))
    pictures, decisions, task = pickle.loads(stored.read_bytes())  # our own file of an earlier run
    return Recording(model, pictures, decisions, task)


def _model(name: str, models: Path) -> Model:
    if name == "ESPNet":
        weights = models / "espnet_p_2_q_8.safetensors"
        return load_model(str(_ROOT / "test" / "networks" / "espnet.yaml"), weights=weights, input_size=(512, 1024))
    return load_model(str(models / f"{name}.onnx"))


def _decided(model: Model, clip: Path, frames: int) -> tuple[list[Image], list[Any], Task[Any]]:
    """The thumbnails of a recording, what the model decides on each frame, and how that is judged."""
    preprocessor, run = Preprocessor(model.card), prepare(Backend.ONNXRUNTIME, model, 2).run
    meter, names = ChangeMeter(preprocessor.size), [name for name, _ in model.graph.outputs]
    pictures, decisions, task = [], [], None
    for frame in islice(open_source(str(clip)), frames):
        outputs = dict(zip(names, run(preprocessor.input(frame.image)), strict=True))
        task = task or task_of_model(model.card, outputs, [1.0] * len(outputs), most_pixels=_MOST_PIXELS)
        pictures.append(meter.thumbnail(frame.image))
        decisions.append(task.read(outputs, (frame.image.shape[0], frame.image.shape[1])))
    assert task is not None
    return pictures, decisions, task


if __name__ == "__main__":
    typer.run(main)
