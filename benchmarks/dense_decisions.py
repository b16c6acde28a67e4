# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Recordings whose dense decisions are computed once and stored, to judge every policy for holding answers on them."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine import Preprocessor
from cacheinf_ros.engine.decisions import Loss, Score, Task, task_of_model
from cacheinf_ros.engine.dense_backends import fastest_backends
from cacheinf_ros.graph import Model, load_model
from cacheinf_ros.pipeline.answer_holder import AnswerHolder
from cacheinf_ros.pipeline.burst import LONGEST, Burst
from cacheinf_ros.pipeline.picture_change import Change, ChangeMeter
from cacheinf_ros.sources import open_source

WARM_UP = 26
"""Frames that are not judged: bounded mode's first burst is among them."""
_STEPS = 16  # number of limits of each kind that are tried in hindsight
_MOST_PIXELS = 32_768  # most pixels of class maps, as in bounded mode
_ESPNET = "espnet"  # part of the name of weights whose architecture is among the tests' networks
_ROOT = Path(__file__).parents[1]
Image = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What a model decides on each frame of a recording.

    Attributes:
        input_size: (height, width) of the model's input.
        pictures: thumbnails of the frames.
        decisions: what dense execution decides on each frame.
        task: reads and judges the decisions.
    """

    input_size: tuple[int, int]
    pictures: list[Image]
    decisions: list[Any]
    task: Task[Any]


def kept_decisions(model: Path, recording: Path, frames: int, store: Path) -> Decided:
    """Decide densely on the first frames of a recording, or read what an earlier run decided.

    Delete ``store`` where models or recordings have changed.
    """
    kept = store / f"{model.stem}-{recording.stem}-{frames}.pickle"
    if not kept.exists():
        store.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(pickle.dumps(_decided(_model(model), recording, frames)))
    return pickle.loads(kept.read_bytes())  # our own file of an earlier run


def is_espnet(model: Path) -> bool:
    """Tell whether a file holds ESPNet's weights."""
    return model.suffix == ".safetensors" and _ESPNET in model.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The result of a policy on a recording: the share of the frames that it computes, and what it loses."""

    computed: float
    loss: Loss


class Recording:
    """Judges policies on a recording whose dense decisions are known."""

    def __init__(self, decided: Decided, first: int = 0) -> None:
        """Begin at frame ``first``."""
        self._input_size, self._task = decided.input_size, decided.task
        self._pictures, self._decisions = decided.pictures[first:], decided.decisions[first:]
        self._everything = Burst(self._task, ChangeMeter(self._input_size))
        for picture, decision in zip(self._pictures, self._decisions, strict=True):
            self._everything.add(picture, decision)
        self._dense = sum(self._everything.scores(range(len(self._pictures)))[WARM_UP:], Score())

    def regular(self) -> list[Point]:
        """Judge computing every frame, every second one, and so on; each point is the mean over all phases."""
        points = []
        for period in range(1, LONGEST + 2):
            of_phases = [
                self._judge([max(0, now - (now - phase) % period) for now in range(len(self._pictures))])
                for phase in range(period)
            ]
            points.append(_mean(of_phases))
        return points

    def skipping(self, computed: float) -> Point:
        """Judge computing a share of the frames regularly, as if a user had known it; the same maximum age applies."""
        numbers = np.floor(np.arange(len(self._pictures)) * max(computed, 1 / (LONGEST + 1)) + 1e-9)
        answers = np.maximum.accumulate(np.where(np.diff(numbers, prepend=-1) > 0, np.arange(len(numbers)), 0))
        return self._judge(answers.tolist())

    def hindsight(self) -> list[Point]:
        """Judge fixed limits on change, for a grid of limits that could only be known in hindsight."""
        changes = self._everything.changes(LONGEST)
        ranks = np.linspace(0, 1, _STEPS)
        largest = np.unique(np.quantile([change.largest for change in changes], ranks))
        mean = np.unique(np.quantile([change.mean for change in changes], ranks))
        limits = [Change(largest=float(a), mean=float(b)) for a in largest for b in mean]
        return [self._judge(self._everything.held(limit)) for limit in limits]

    def online(self, max_loss: float) -> Point:
        """Judge bounded mode, which knows nothing in advance."""
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


def _mean(points: list[Point]) -> Point:
    return Point(
        computed=float(np.mean([point.computed for point in points])),
        loss=Loss(
            whole=float(np.mean([point.loss.whole for point in points])),
            moving=float(np.mean([point.loss.moving for point in points])),
        ),
    )


def _model(file: Path) -> Model:
    if is_espnet(file):
        return load_model(str(_ROOT / "test" / "networks" / "espnet.yaml"), weights=file, input_size=(512, 1024))
    return load_model(str(file))


def _decided(model: Model, recording: Path, frames: int) -> Decided:
    preprocessor, backend = Preprocessor(model.card), fastest_backends(model, 2)[0]
    meter, names = ChangeMeter(preprocessor.size), [name for name, _ in model.graph.outputs]
    pictures, decisions, task = [], [], None
    for frame in islice(open_source(str(recording)), frames):
        outputs = dict(zip(names, backend.run(backend.read(frame.image)), strict=True))
        task = task or task_of_model(model.card, outputs, [1.0] * len(outputs), most_pixels=_MOST_PIXELS)
        pictures.append(meter.thumbnail(frame.image))
        decisions.append(task.read(outputs, (frame.image.shape[0], frame.image.shape[1])))
    assert task is not None
    return Decided(input_size=preprocessor.size, pictures=pictures, decisions=decisions, task=task)
