# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Measures what a specialist gains while few classes dominate, how it is made, and when it is withdrawn.

This is MCDNN's section 5.2.1.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from benchmarks.catalog.skewed import Seen, SkewedCamera, chances, learned
from cacheinf_ros.bench.timing import measured, summary
from cacheinf_ros.catalog.build.measured_architecture import frames_ms
from cacheinf_ros.catalog.linear import Floats
from cacheinf_ros.catalog.specialists.cascade import Verdict, cascade
from cacheinf_ros.catalog.specialists.dominance import Pair
from cacheinf_ros.catalog.specialists.pareto import Candidate, assess, is_dominated, pareto, useful_pairs
from cacheinf_ros.catalog.specialists.retarget import Rejected, retarget
from cacheinf_ros.catalog.specialists.specialiser import Answered, Prepare, Specialiser, Withdraw
from cacheinf_ros.catalog.specialists.specialist import Specialist
from cacheinf_ros.catalog.trunks import small_trunks
from cacheinf_ros.engine import Engine, EngineConfig, Mode
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import Model, load_model
from cacheinf_ros.matching import MatcherName, MatchingConfig
from cacheinf_ros.pipeline.cached_model import CachedModel
from cacheinf_ros.pipeline.map_producer import MapProducer
from cacheinf_ros.pipeline.runner import Runner

_MOST_FRAMES = 2000  # the most frames to wait for a skew to be seen, or for a specialist to be withdrawn


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    fps: float
    dominating: tuple[int, ...]
    share: float
    mode: Mode
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log:
    """The times and answers of a phase, frame by frame."""

    chain_ms: list[float] = field(default_factory=list)
    generic_ms: list[float] = field(default_factory=list)
    chain_right: list[bool] = field(default_factory=list)
    generic_right: list[bool] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        return {
            "frames": len(self.chain_ms),
            "chain_ms": summary(self.chain_ms),
            "generic_ms": summary(self.generic_ms),
            "chain_over_generic": float(np.mean(self.chain_ms) / np.mean(self.generic_ms)),
            "chain_accuracy": float(np.mean(self.chain_right)),
            "generic_accuracy": float(np.mean(self.generic_right)),
            "answered": {each.value: self.answered.count(each.value) for each in Answered},
        }


def run_specialisation_benchmark(
    *,
    dominating: Sequence[int] = (0, 2, 5, 7, 9, 11, 13),
    share: float = 0.9,
    fps: float = 10.0,
    frames: int = 600,
    scenes: int = 300,
    mode: Mode = Mode.DENSE,
    threads: int = 2,
    seed: int = 3,
    weights: Path | None = None,
) -> dict[str, Any]:
    """Show scenenames a stream in which few classes dominate, then one in which all are equally frequent.

    A specialist is made by a background thread while frames keep coming at their rate. The generic model alone answers
    every frame too, taking turns with the chain: on the same frames and the same cache maps.

    Args:
        dominating: the dominating classes; ``share`` is the share of the frames that they make up together.
        frames: number of frames to compare on, with the specialist.
        scenes: number of built-in scenes to learn from, ahead of time.

    Raises:
        CatalogError: no specialist was made, or none was withdrawn.
    """
    generic = load_model("scenenames", weights=weights)
    setting = _Setting(fps=fps, dominating=tuple(dominating), share=share, mode=mode, threads=threads)
    return _Run(generic, setting, scenes, seed).report(frames)


class _Run:
    def __init__(self, generic: Model, setting: _Setting, scenes: int, seed: int) -> None:
        self._setting = setting
        self._camera = SkewedCamera(generic.input_size, seed)
        config = EngineConfig.checked(mode=setting.mode, threads=setting.threads)
        trunks = {trunk.name: trunk for trunk in small_trunks(generic)}
        sets, self._forward_ms = measured(learned, generic, list(trunks.values()), scenes, seed)
        self._sets = dict(zip(trunks, sets, strict=True))
        engines = {name: Engine(trunk, config) for name, trunk in trunks.items()} | {"": Engine(generic, config)}
        image = next(self._camera.look(1, {0: 1.0})).image
        self._took_ms = dict(zip(engines, frames_ms(list(engines.values()), image), strict=True))
        self._found, self._winnow_ms = measured(self._assess)
        self._pairs = useful_pairs(self._found)
        self._trunk = _cheapest(self._found[Pair(n=7, p=0.9)])
        if self._trunk is None:
            raise CatalogError(f"no trunk of {generic.name} is worth specialising on this machine: {self._took_ms}")
        self._classes = self._sets[self._trunk].classes
        self._specialiser = Specialiser(self._classes, self._pairs)
        self._config = config
        self._small, self._whole = (
            CachedModel(Runner(each, config, _unheard)) for each in (trunks[self._trunk], generic)
        )
        self._generic = engines[""]
        self._output = generic.graph.outputs[0][0]
        self._matching = MatchingConfig(matcher=MatcherName.IDENTITY)
        self._producer = MapProducer(self._matching)
        self._data_s = 0.0
        self._turn = cycle((True, False))

    def report(self, frames: int) -> dict[str, Any]:
        skewed = chances(self._setting.dominating, self._setting.share)
        looking, began = _Log(), self._data_s
        order = self._watch(self._camera.look(_MOST_FRAMES, skewed), looking)
        if not isinstance(order, Prepare):
            raise CatalogError(f"no skew was seen in {_MOST_FRAMES} frames, although there is one")
        seen_s = self._data_s - began
        preparing = _Log()
        outcome, wall_s, cpu_s = self._prepare(order, skewed, preparing)
        if not isinstance(outcome, Specialist) or not self._specialiser.deployed(outcome):
            raise CatalogError(f"no specialist was made: {outcome.why if isinstance(outcome, Rejected) else outcome}")
        specialised = _Log()
        early = self._watch(self._camera.look(frames, skewed), specialised)
        ended, ending = self._data_s, _Log()
        everything = chances(range(self._classes), 1.0) if early is None else skewed
        withdrawal = early or self._watch(self._camera.look(_MOST_FRAMES, everything), ending)
        if not isinstance(withdrawal, Withdraw):
            raise CatalogError(f"the specialist was not withdrawn in {_MOST_FRAMES} frames without a skew")
        return {
            "model": "scenenames",
            "setting": {
                "classes": self._classes, "dominating": list(self._setting.dominating), "share": self._setting.share,
                "fps": self._setting.fps, "mode": self._setting.mode.value, "threads": self._setting.threads,
            },
            "ahead_of_time": self._ahead_of_time(),
            "trunk": self._trunk,
            "dominance": {"n": order.dominance.pair.n, "p": order.dominance.pair.p, "share": order.dominance.share,
                          "classes": list(order.dominance.classes)},
            "seen_after_s_of_data": seen_s,
            "prepared_in_s": wall_s,
            "processor_s": cpu_s,
            "frame_ms_before": summary(looking.chain_ms),
            "frame_ms_meanwhile": summary(preparing.chain_ms) if preparing.chain_ms else None,
            "expected": asdict(outcome.expected),
            "specialised": specialised.report(),
            "withdrawn_early": early.why if isinstance(early, Withdraw) else None,
            "withdrawn_after_s_of_data": self._data_s - ended if early is None else None,
            "withdrawn_because": withdrawal.why,
        }  # fmt: skip

    def _prepare(
        self, order: Prepare, skewed: Mapping[int, float], log: _Log
    ) -> tuple[Specialist | Rejected | None, float, float]:
        """Make the specialist in a thread of its own, while frames come at their rate.

        Returns the outcome, and the seconds of wall-clock and of processor time that it took.
        """
        assert self._trunk is not None
        samples, small_ms, generic_ms = self._sets[self._trunk], self._took_ms[self._trunk], self._took_ms[""]
        took: list[float] = []
        made: list[Specialist | Rejected | None] = []

        def work() -> None:
            wall, processor = time.perf_counter(), time.thread_time()
            made.append(retarget(samples, order.dominance, small_ms=small_ms, generic_ms=generic_ms))
            took.extend((time.perf_counter() - wall, time.thread_time() - processor))

        thread = Thread(target=work)
        thread.start()
        while thread.is_alive():
            started = time.perf_counter()
            self._watch(self._camera.look(1, skewed), log)
            thread.join(max(0.0, 1 / self._setting.fps - (time.perf_counter() - started)))
        return made[0], took[0], took[1]

    def _watch(self, frames: Iterator[Seen], log: _Log) -> Prepare | Withdraw | None:
        """Answer frames until the specialiser gives an order, and return the order; None where it gave none."""
        for seen in frames:
            self._data_s += 1 / self._setting.fps
            result = self._answer(seen, log)
            order = self._specialiser.observe(result.class_id, result.answered, self._data_s)
            if order is not None:
                return order
        return None

    def _answer(self, seen: Seen, log: _Log) -> Verdict:
        stamp_ns = round(self._data_s * 1e9)
        update = self._producer.link(seen.image, stamp_ns, self._matching, mode=self._config.mode)
        cache_map = update.cache_map
        for model in (self._small, self._whole):
            model.add(update)

        def small() -> Floats:
            (features,) = self._small.run(seen.image, stamp_ns, self._config).engine.outputs.values()
            return np.asarray(features.ravel(), np.float32)

        def whole() -> int:
            return int(self._whole.run(seen.image, stamp_ns, self._config).engine.outputs[self._output].argmax())

        def chained() -> Verdict:
            return cascade(self._specialiser.specialist, small, whole, audit=self._specialiser.audit_due)

        def alone() -> int:
            return int(self._generic.run(seen.image, cache_map).outputs[self._output].argmax())

        if next(self._turn):
            result, chain_ms = measured(chained)
            class_id, generic_ms = measured(alone)
        else:
            class_id, generic_ms = measured(alone)
            result, chain_ms = measured(chained)
        log.chain_ms.append(chain_ms)
        log.generic_ms.append(generic_ms)
        log.chain_right.append(result.class_id == seen.label)
        log.generic_right.append(class_id == seen.label)
        log.answered.append(result.answered.value)
        return result

    def _assess(self) -> dict[Pair, tuple[Candidate, ...]]:
        return assess(self._sets, self._took_ms, self._took_ms[""])

    def _ahead_of_time(self) -> dict[str, Any]:
        kept = pareto(self._found)
        return {
            "pre_forwarding_s": self._forward_ms / 1e3,
            "samples": len(next(iter(self._sets.values())).labels),
            "trunk_ms": self._took_ms,
            "winnowing_s": self._winnow_ms / 1e3,
            "kept": sorted(kept - {""}),
            "dropped": sorted(set(self._sets) - kept),
            "pairs": [[pair.n, pair.p] for pair in self._pairs],
            "candidates": [
                {"n": pair.n, "p": pair.p, "trunk": c.name, "accuracy": c.accuracy, "ms": c.cost}
                for pair, each in self._found.items()
                for c in each
            ],
        }


def _unheard(name: str, text: str) -> None:
    """Ignore diagnostics, which nobody reads here."""


def _cheapest(candidates: Sequence[Candidate]) -> str | None:
    """Return the cheapest trunk on the Pareto front; None where the generic model alone is better."""
    front = [each for each in candidates if each.is_specialised and not is_dominated(each, candidates)]
    return min(front, key=lambda each: each.cost).name if front else None
