# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Gives every frame of a stream to this package's modes and to the dense engines in turn, and notes their answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cacheinf_ros.bench.contenders import AnyContender
from cacheinf_ros.bench.dense_answers import DenseAnswers
from cacheinf_ros.bench.kept_answers import KeptAnswer, KeptAnswers
from cacheinf_ros.bench.loss import LossMeter
from cacheinf_ros.bench.own_way import OwnWay
from cacheinf_ros.bench.server_way import SERVER, send
from cacheinf_ros.bench.shots import Image, Shot
from cacheinf_ros.bench.stream_plan import BOUNDED, StreamPlan
from cacheinf_ros.bench.streaming import held_up_ms
from cacheinf_ros.bench.timing import timed
from cacheinf_ros.bench.trace import FrameTrace
from cacheinf_ros.engine import DensePrecision
from cacheinf_ros.engine.decisions import Task
from cacheinf_ros.engine.dense_backends import Dense
from cacheinf_ros.graph import Model
from cacheinf_ros.pipeline.frame_result import HELD


class Interleaved:
    """Runs this package's modes and the dense engines on the same frames.

    Attributes:
        losses: judges the decisions on the frames that count.
        latency_ms: for each way that ran, the time of each frame that counts.
        held, traces: for each of this package's ways, whether a frame's answer is that to an earlier one, and how it
            was answered.
        engines: names of the dense engines that go on; ``lossy``: those among them of lower precision.
    """

    def __init__(
        self, model: Model, plan: StreamPlan, dense: Mapping[AnyContender, Dense], images: Sequence[Image]
    ) -> None:
        """Prepare all engines and modes; ``images``: the stream's images."""
        self._model, self._plan = model, plan
        self._dense = {contender.value: run for contender, run in dense.items()}
        self._precisions = {contender.value: contender.precision for contender in dense}
        self.engines = [*self._dense]
        self.lossy = {name for name, precision in self._precisions.items() if precision.loses}
        self._exact = next(name for name in self.engines if name not in self.lossy)
        self._answers = DenseAnswers(model, self._dense[self._exact], images)
        self._kept: KeptAnswers | None = None
        if plan.keep_in is not None:
            settings = f"{self.engines} {plan.config.threads} {plan.warm_up} {plan.is_brief} {plan.server}"
            self._kept = KeptAnswers(plan.keep_in, model, images, settings)
        self._own = {name: self.begun(name) for name in plan.own}
        self._held_up_ms = dict.fromkeys(self._own, 0.0)  # delay of the next frame by work after the last answer
        self._warm_up_ms: dict[str, list[float]] = {}
        self.losses = LossMeter(self.task, plan.config.max_loss)
        self.latency_ms: dict[str, list[float]] = {}
        self.held: dict[str, list[bool]] = {name: [] for name in self._own}
        self.traces: dict[str, list[FrameTrace]] = {name: [] for name in self._own}

    @property
    def task(self) -> Task[Any]:
        """The task that reads what outputs decide."""
        return self._answers.task

    @property
    def notes(self) -> Mapping[str, str]:
        """What diagnostics would show of bounded mode, by name."""
        return self._own[BOUNDED].notes

    def begun(self, name: str) -> OwnWay:
        """Begin one of this package's modes, with an empty cache."""
        return OwnWay(self._model, self._plan.own[name], self.task)

    def run(self, shot: Shot, *, turn: int, counts: bool) -> None:
        """Give a frame to every mode and engine, in an order that rotates with each turn."""
        answers: dict[str, KeptAnswer] = {} if self._kept is None else dict(self._kept.read(turn))
        runs: dict[str, Callable[[str, Shot], KeptAnswer]] = dict.fromkeys(self._own, self._run_own)
        runs |= dict.fromkeys(self.engines, self._run_dense)
        if self._plan.server is not None:
            runs[SERVER] = self._run_server
        names = [*runs][turn % len(runs) :] + [*runs][: turn % len(runs)]
        # the engines are skipped only where answers of all that go on were kept
        is_kept = bool(answers) and all(name in answers for name in runs if name not in self._own)
        for name in names:
            if name in self._own or not is_kept:
                answers[name] = runs[name](name, shot)
        if self._kept is not None and not is_kept:
            self._kept.write(turn, {name: answers[name] for name in runs if name not in self._own})
        self._note({name: answers[name] for name in runs}, counts=counts)

    def _note(self, answers: Mapping[str, KeptAnswer], *, counts: bool) -> None:
        latency_ms = self.latency_ms if counts else self._warm_up_ms
        for name, answer in answers.items():
            latency_ms.setdefault(name, []).append(answer.took_ms)
        if not counts:
            return
        for name, own in self._own.items():
            self.held[name].append(own.trace.mode == HELD)
            self.traces[name].append(own.trace)
        judged = [*self._own, *sorted(self.lossy), *([SERVER] if self._plan.server is not None else [])]
        self.losses.add(answers[self._exact].decision, {name: answers[name].decision for name in judged})

    def _run_own(self, name: str, shot: Shot) -> KeptAnswer:
        answer, behind_ms = self._own[name].answer(shot)
        took_ms = self._held_up_ms[name] + answer.took_ms
        self._held_up_ms[name] = held_up_ms(took_ms, behind_ms, self._plan.period_ms)
        return replace(answer, took_ms=took_ms)

    def _run_dense(self, name: str, shot: Shot) -> KeptAnswer:
        return self._answers.answer(self._dense[name], shot.image)

    def _run_server(self, name: str, shot: Shot) -> KeptAnswer:
        assert self._plan.server is not None
        sent, _ = timed(send, shot.image, self._plan.server)
        outputs = self._answers.outputs(self._dense[self._exact], sent.image)
        return self._answers.read(outputs, shot.image, sent.took_ms)  # decoding is in the user's figure for the server

    def narrow(self) -> None:
        """Continue with the fastest engine in float32, and the fastest of each lower precision that is faster still."""
        took_ms = {name: float(np.median(self._warm_up_ms[name])) for name in self.engines}
        fastest: dict[DensePrecision, str] = {}
        for name in sorted(took_ms, key=took_ms.__getitem__):
            fastest.setdefault(self._precisions[name], name)
        self._exact = fastest[DensePrecision.FLOAT32]
        self.engines = [name for name in fastest.values() if took_ms[name] <= took_ms[self._exact]]
        self.lossy.intersection_update(self.engines)

    def forget_kept(self) -> None:
        """Remove the stored answers, because all frames are done."""
        if self._kept is not None:
            self._kept.forget()
