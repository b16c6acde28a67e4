# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench stream``: measures what a user gets on a recording, against everything a user could do instead.

Every frame goes through bounded mode, as the nodes run it, and through every dense engine, in turn. Times count from
the frame to what the user gets, decoded boxes included. The work that bounded mode does after an answer, to judge it,
counts where it delays the next frame of the camera, and always in ``busy_ms``. Answers are judged by what dense answers
to neighbouring frames agree on, and by what truly is in a frame where the source knows that: both as if they took no
time, and as they would arrive at the camera's rate.

The dense engines in float32 compute the same, so only one of them is judged; skipping frames takes the corresponding
share of the fastest one's time. Engines of lower precision are judged like bounded mode, and count as dense engines
where they keep the same promise. Finally the real nodes answer the same frames at the camera's rate, and are judged in
the same way (:mod:`cacheinf_ros.bench.stream_nodes`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cacheinf_ros.bench.alternatives import SKIPPED, SKIPS, DenseRun
from cacheinf_ros.bench.contenders import AnyContender, Contender, build_contenders
from cacheinf_ros.bench.judge import Judge
from cacheinf_ros.bench.kept_answers import KeptAnswer, KeptAnswers
from cacheinf_ros.bench.loss import DENSE, MOST_PIXELS, LossMeter
from cacheinf_ros.bench.output_errors import ErrorScale
from cacheinf_ros.bench.own_way import OwnSettings, OwnWay
from cacheinf_ros.bench.server_way import SERVER, ServerLink, send
from cacheinf_ros.bench.shots import Image, Shot, varied_images
from cacheinf_ros.bench.stream_run import StreamRun
from cacheinf_ros.bench.streaming import Emission, answer_at_rate, held_up_ms, newest, simulate
from cacheinf_ros.bench.timing import measured, summary, timed
from cacheinf_ros.bench.trace import FrameTrace, Still
from cacheinf_ros.bench.truth_score import TruthClasses
from cacheinf_ros.cache_map import Motion
from cacheinf_ros.engine import DensePrecision, EngineConfig, Preprocessor, decode
from cacheinf_ros.engine.decisions import task_of_model
from cacheinf_ros.engine.dense_backends import Dense
from cacheinf_ros.errors import SourceError
from cacheinf_ros.graph import Model
from cacheinf_ros.mode import Mode
from cacheinf_ros.pipeline.frame_result import HELD

__all__ = ["BOUNDED", "ENGINES", "SKIPPED", "StreamPlan", "run_stream_benchmark"]
BOUNDED = "bounded"
Report = dict[str, Any]
PlayThroughNodes = Callable[[Judge, Sequence[Shot], float], Report]
"""A function that plays frames through the nodes, and returns figures.

It takes the judge of the frames that count, all frames with those to warm up, and the milliseconds of dense execution.
"""
ENGINES = (
    Contender.ONNXRUNTIME,
    Contender.OPENVINO,
    *(contender for contender in Contender if contender.precision.loses),
)
"""The dense engines in the comparison: those that users would take, and all of lower precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPlan:
    """What is to be measured.

    Attributes:
        own: modes and promises of this package, by name; one of them is :data:`BOUNDED`, in bounded mode, whose promise
            the others are held to.
        frames: how many frames are counted, at most.
        warm_up: how many frames come before those, from which bounded mode learns what it may hold.
        fps: the camera's rate, frames per second.
        truth_class: the class of objects without a label, see :class:`cacheinf_ros.bench.truth_score.TruthClasses`.
        contenders: dense engines to compare with; torch is added where none in float32 is installed.
        is_brief: whether after the warm-up only the fastest engine of each precision goes on, and one of lower
            precision only if it is faster than float32.
        skips: the skips, each a way: one of so many frames is computed.
        server: a server that computes whole frames as a further way, :data:`SERVER`; None: there is none.
        at_rate: whether the ways are also judged as they arrive at the camera's rate, for which this package's modes
            run once more where they are slower than that.
        keep_in: a folder for the answers of dense engines, so that an interrupted measurement can continue.
    """

    own: Mapping[str, OwnSettings]
    frames: int
    warm_up: int
    fps: float = 30.0
    truth_class: str = ""
    contenders: Sequence[Contender] = ENGINES
    is_brief: bool = False
    skips: Sequence[int] = SKIPS
    server: ServerLink | None = None
    at_rate: bool = True
    keep_in: Path | None = None

    @property
    def config(self) -> EngineConfig:
        """The configuration of bounded mode."""
        return self.own[BOUNDED].config


def run_stream_benchmark(
    model: Model,
    shots: Iterable[Shot],
    plan: StreamPlan,
    *,
    nodes: PlayThroughNodes | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> StreamRun:
    """Measure a model on a stream of frames.

    Args:
        nodes: plays the same frames through the real nodes; None: the nodes are left out.
        progress: is called with how many frames are done and how many there are, those to warm up included.

    Raises:
        SourceError: there are not enough frames.
        ConfigError: the model has no class of the name ``truth_class``.
    """
    classes = TruthClasses(model.card.labels, plan.truth_class)
    torch.set_num_threads(plan.config.threads)
    taken = list(itertools.islice(shots, plan.warm_up + plan.frames))
    if len(taken) < plan.warm_up + 2:
        raise SourceError(f"the source has {len(taken)} frames; the benchmark needs at least {plan.warm_up + 2}")
    images = [shot.image for shot in taken]
    stream = _Stream(model, plan, dense_engines(model, plan.contenders, plan.config.threads, images), images)
    for index, shot in enumerate(taken):
        progress(index, len(taken))
        if index == plan.warm_up and plan.is_brief:
            stream.narrow()
        stream.run(shot, turn=index, counts=index >= plan.warm_up)
    stream.forget_kept()
    counted = taken[plan.warm_up :]
    report = stream.report([shot.image for shot in counted])
    judge = Judge(
        task=stream.task, agreed=stream.losses.agreed, objects=[shot.objects for shot in counted], classes=classes
    )
    figures = {
        "model": model.name,
        "size": "x".join(map(str, model.input_size)),
        "frames": len(counted),
        "warm_up": plan.warm_up,
        "threads": plan.config.threads,
        "fps": plan.fps,
        **report,
        "ways": stream.judged(judge, taken, 1e3 / plan.fps) if plan.at_rate else {},
        "nodes": None
        if nodes is None
        else nodes(judge, taken, report["latency_ms"][report["best_dense_fp32"]]["mean"]),
    }
    return StreamRun(
        report=figures, labels=model.card.labels, stills=[Still.of(shot.image) for shot in counted],
        losses=stream.losses, took_ms=stream.took_ms, held=stream.held, traces=stream.traces,
    )  # fmt: skip


def dense_engines(
    model: Model, contenders: Sequence[Contender], threads: int, images: Sequence[Image]
) -> dict[AnyContender, Dense]:
    """Build the installed engines, and torch where none in float32 is; int8 engines calibrate on ``images``."""
    dense = build_contenders(model, contenders, threads, images).runs
    if all(contender.precision.loses for contender in dense):
        dense |= build_contenders(model, (Contender.CHANNELS_LAST,), threads).runs
    return dense


class _Stream:
    """Runs this package's modes and the dense engines on the same frames.

    Attributes:
        task: the task that reads what outputs decide.
        losses: judges the decisions.
        took_ms: see :class:`StreamRun`; complete once there is a report.
        held, traces: see :class:`StreamRun`.
    """

    def __init__(
        self, model: Model, plan: StreamPlan, dense: Mapping[AnyContender, Dense], images: Sequence[Image]
    ) -> None:
        """Prepare all engines and modes.

        Args:
            images: the stream's images. Outputs without a decoder are judged by their deviation over these and other
                images.
        """
        self._dense = dense
        self._server = plan.server
        self._skips = plan.skips
        self._kept: KeptAnswers | None = None
        if plan.keep_in is not None:
            engines = [contender.value for contender in dense]
            settings = f"{engines} {plan.config.threads} {plan.warm_up} {plan.is_brief} {plan.server}"
            self._kept = KeptAnswers(plan.keep_in, model, images, settings)
        self._preprocessor = Preprocessor(model.card)
        self._model = model
        self._settings = plan.own
        self._warm_up = plan.warm_up
        self._own = {name: OwnWay(model, settings) for name, settings in plan.own.items()}
        self._last: dict[str, Any] = {}  # latest decisions of this package's modes
        self._period_ms = 1e3 / plan.fps
        self._held_up_ms = dict.fromkeys(self._own, 0.0)  # delay of the next frame by work after the last answer
        self._latency_ms: dict[str, list[float]] = {}
        self._warm_up_ms: dict[str, list[float]] = {}
        self.held: dict[str, list[bool]] = {name: [] for name in self._own}
        self.traces: dict[str, list[FrameTrace]] = {name: [] for name in self._own}
        self._names = [name for name, _ in model.graph.outputs]
        self._engines = [contender.value for contender in dense]  # that go on
        self._lossy = {contender.value for contender in dense if contender.precision.loses}
        self._exact = next(contender.value for contender in dense if not contender.precision.loses)
        exact = dense[Contender(self._exact)]
        outputs = [exact(self._preprocessor.input(image)) for image in varied_images(images)]
        self.task = task_of_model(
            model.card, self._named(outputs[0]), ErrorScale(outputs).deviations, most_pixels=MOST_PIXELS
        )
        self.losses = LossMeter(self.task, plan.config.max_loss)
        self.took_ms: dict[str, Sequence[float | None]] = {}
        self._built_on: dict[str, Sequence[int] | None] = {}

    def run(self, shot: Shot, *, turn: int, counts: bool) -> None:
        """Give a frame to every mode and engine, in an order that rotates with each turn."""
        answers: dict[str, KeptAnswer] = {} if self._kept is None else dict(self._kept.read(turn))
        runs: dict[str, Callable[[str, Shot], KeptAnswer]] = dict.fromkeys(self._own, self._run_own)
        runs |= dict.fromkeys(self._engines, self._run_dense)
        if self._server is not None:
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
        latency_ms = self._latency_ms if counts else self._warm_up_ms
        for name, answer in answers.items():
            latency_ms.setdefault(name, []).append(answer.took_ms)
        self._last = {name: answers[name].decision for name in self._own}
        if counts:
            for name, own in self._own.items():
                self.held[name].append(own.trace.mode == HELD)
                self.traces[name].append(own.trace)
            judged = [*self._own, *sorted(self._lossy), *([SERVER] if self._server is not None else [])]
            self.losses.add(answers[self._exact].decision, {name: answers[name].decision for name in judged})

    def _run_own(self, name: str, shot: Shot) -> KeptAnswer:
        answer, behind_ms = self._answer(self._own[name], shot, self._last.get(name))
        took_ms = self._held_up_ms[name] + answer.took_ms
        self._held_up_ms[name] = held_up_ms(took_ms, behind_ms, self._period_ms)
        own = self._own[name]
        own.trace = replace(own.trace, busy_ms=answer.took_ms + behind_ms)
        return replace(answer, took_ms=took_ms)

    def _answer(self, own: OwnWay, shot: Shot, last: Any) -> tuple[KeptAnswer, float]:
        """Answer a frame, and do the work after the answer; returns the answer, and the milliseconds of that work.

        Args:
            last: the decision that may stand.
        """
        (outputs, motion), took_ms = timed(own, shot)
        if outputs is None:
            answer = KeptAnswer(decision=last, took_ms=took_ms)
        else:
            decoded_ms = took_ms if own.has_decoded else took_ms + self._decoding_ms(shot, outputs, motion)
            answer = self._read(shot, outputs, decoded_ms, motion)
        return answer, own.finish()

    def _run_dense(self, name: str, shot: Shot) -> KeptAnswer:
        outputs, took_ms = timed(self._densely, name, shot.image)
        return self._read(shot, outputs, took_ms + self._decoding_ms(shot, outputs))

    def _run_server(self, name: str, shot: Shot) -> KeptAnswer:
        assert self._server is not None
        sent, _ = timed(send, shot.image, self._server)
        outputs = self._densely(self._exact, sent.image)
        return self._read(shot, outputs, sent.took_ms)  # the server decodes: the user's figure for it says how long

    def _read(self, shot: Shot, outputs: Any, took_ms: float, motion: Motion | None = None) -> KeptAnswer:
        """Read what outputs decide, to judge it: no user waits for that, so that it takes none of the answer's time."""
        return KeptAnswer(decision=self.task.read(outputs, _size(shot.image), motion), took_ms=took_ms)

    def _decoding_ms(self, shot: Shot, outputs: Any, motion: Motion | None = None) -> float:
        """Return the milliseconds that nodes take to decode these outputs, whichever way has computed them."""
        return measured(decode, outputs, self._model.card, _size(shot.image), motion)[1]

    def narrow(self) -> None:
        """Continue with the fastest engine in float32, and the fastest of each lower precision that is faster still."""
        took_ms = {name: float(np.median(self._warm_up_ms[name])) for name in self._engines}
        fastest: dict[DensePrecision, str] = {}
        for name in sorted(took_ms, key=took_ms.__getitem__):
            fastest.setdefault(Contender(name).precision, name)
        self._exact = fastest[DensePrecision.FLOAT32]
        self._engines = [name for name in fastest.values() if took_ms[name] <= took_ms[self._exact]]
        self._lossy.intersection_update(self._engines)

    def forget_kept(self) -> None:
        """Remove the stored answers, because all frames are done."""
        if self._kept is not None:
            self._kept.forget()

    def report(self, images: Sequence[Image]) -> dict[str, Any]:
        """Return what was measured, for JSON; ``images``: images of the frames that count."""
        latency_ms = {name: summary(values) for name, values in self._latency_ms.items()}
        means = {name: values["mean"] for name, values in latency_ms.items()}
        full = [name for name in self._engines if name not in self._lossy]
        losses = {name: self.losses.loss(name) for name in sorted(self._lossy)}
        keeping = [name for name, loss in losses.items() if loss["kept"]]
        # the nodes compute every frame by the fastest of these, of which one is this package's own
        full += [name for name, settings in self._settings.items() if settings.config.mode is Mode.DENSE]
        best_full = min(full, key=means.__getitem__)
        best = min((*full, *keeping), key=means.__getitem__)
        dense = DenseRun(
            task=self.task,
            images=images,
            decisions=self.losses.decisions[DENSE],
            took_ms=self._latency_ms[best_full],
        )
        self.took_ms = {**self._latency_ms, DENSE: dense.took_ms}
        busy_ms = {name: [trace.busy_ms for trace in traces] for name, traces in self.traces.items()}
        for each in dense.alternatives(busy_ms[BOUNDED], self._skips):
            self.losses.add_decisions(each.name, each.decisions)
            self.took_ms[each.name] = each.took_ms
            self._built_on[each.name] = each.built_on
        return {
            "latency_ms": latency_ms,
            "busy_ms": {name: summary(values) for name, values in busy_ms.items()},
            "best_dense": best,
            "speedup_vs_best_dense": round(means[best] / means[BOUNDED], 3),
            "best_dense_fp32": best_full,
            "speedup_vs_best_dense_fp32": round(means[best_full] / means[BOUNDED], 3),
            "contender_losses": losses,
            "held": round(float(np.mean(self.held[BOUNDED])), 4),
            **self.losses.report(BOUNDED),
            "notes": dict(self._own[BOUNDED].notes),
        }

    def judged(self, judge: Judge, taken: Sequence[Shot], period_ms: float) -> dict[str, dict[str, Any]]:
        """Judge each way as its answers would arrive, in simulated time.

        Args:
            judge: the judge of the frames that count.
            taken: all frames, with those to warm up.
            period_ms: milliseconds between frames.
        """
        ways = {}
        for name, decisions in self.losses.decisions.items():
            took_ms = self.took_ms[name]
            if name in self._own and max(took or 0.0 for took in took_ms) > period_ms:
                emissions, given = self._at_rate(name, taken, period_ms)
            else:
                emissions, given = simulate(took_ms, period_ms, self._built_on.get(name)), dict(enumerate(decisions))
            # the first answer is free: there are frames before those that count
            given.setdefault(0, decisions[0])
            times_ms = [index * period_ms for index in range(len(decisions))]
            sources = newest([Emission(at_ms=0.0, frame=0), *emissions], times_ms)
            arrived = [None if source is None else given[source] for source in sources]
            mean_ms = float(np.mean([took or 0.0 for took in took_ms]))
            ways[name] = {"mean_ms": round(mean_ms, 3), **judge.judge(decisions, arrived, sources)}
        return ways

    def _at_rate(self, name: str, taken: Sequence[Shot], period_ms: float) -> tuple[list[Emission], dict[int, Any]]:
        """Run one of this package's modes once more, at the camera's rate.

        What it holds and caches depends on which frames it has had the time to see.

        Returns:
            when its answers arrive, and its decisions by frame.
        """
        own, last = OwnWay(self._model, self._settings[name]), None
        for shot in taken[: self._warm_up]:
            last = self._answer(own, shot, last)[0].decision
        counted = taken[self._warm_up :]
        given: dict[int, Any] = {}

        def answer(index: int) -> tuple[float, float]:
            nonlocal last
            answered, behind_ms = self._answer(own, counted[index], last)
            last = given[index] = answered.decision
            return answered.took_ms, behind_ms

        return answer_at_rate(answer, len(counted), period_ms), given

    def _densely(self, name: str, image: Image) -> dict[str, Any]:
        return self._named(self._dense[Contender(name)](self._preprocessor.input(image)))

    def _named(self, outputs: Sequence[Any]) -> dict[str, Any]:
        return dict(zip(self._names, outputs, strict=True))


def _size(image: Image) -> tuple[int, int]:
    return image.shape[0], image.shape[1]
