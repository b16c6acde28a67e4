# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A specialist that answers before a variant on the device while few classes dominate: MCDNN, section 5.2.1."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.catalog.linear import Floats
from cacheinf_ros.catalog.serving.announcer import Announcer
from cacheinf_ros.catalog.serving.catalog_node_configs import CatalogConfig
from cacheinf_ros.catalog.serving.making_specialists import SpecialistSource, SpecialistThread, TrunkLoader
from cacheinf_ros.catalog.specialists.cascade import Verdict, cascade, class_output
from cacheinf_ros.catalog.specialists.dominance import Dominance
from cacheinf_ros.catalog.specialists.retarget import Made, Rejected, make_specialist
from cacheinf_ros.catalog.specialists.seen_classes import SeenClasses
from cacheinf_ros.catalog.specialists.specialiser import (
    Answered,
    Prepare,
    SkewRules,
    Withdraw,
)
from cacheinf_ros.config import CurrentConfigs
from cacheinf_ros.engine import EngineConfig, decode
from cacheinf_ros.graph import Model
from cacheinf_ros.pipeline import MapUpdate, guarded
from cacheinf_ros.pipeline.cached_model import CachedModel
from cacheinf_ros.pipeline.frame_result import FrameResult
from cacheinf_ros.pipeline.runner import Runner

SPECIALIST = "specialist"
"""The suffix, as in "original@specialist", of a variant that did not run as a specialist answered before it."""

_NOTHING = "n/a"
_NS_PER_S = 1e9


def specialised_cache(
    network: Model,
    source: SpecialistSource,
    parameters: CurrentConfigs,
    announcer: Announcer,
    rules: SkewRules,
    seen: SeenClasses,
) -> SpecialisedCache | None:
    """Give a variant a cache and specialists; returns None for int8, or where no small trunk is faster.

    Args:
        network: the variant's network.
        source: what its specialists are made from.
        parameters: the node's parameters.
        announcer: the model's announcer.
        rules: rules by which a skew begins and ends.
        seen: the model's latest results, wherever they were computed, and other robots'.
    """
    if not source.folder.pairs_for(source.variant):
        slow, in_int8 = f"no small trunk is faster than {source.variant}", f"{source.variant} is computed in int8"
        announcer.note("specialising", f"none: {slow if network.scales is None else in_int8}")
        return None
    runner = Runner(network, parameters.get(EngineConfig), announcer.note)
    return SpecialisedCache(runner, source, parameters, announcer, rules, seen)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Small:
    """A small trunk that can run, and its name."""

    name: str
    cached: CachedModel


class SpecialisedCache(CachedModel):
    """A cached classifier with specialists, which a thread of its own makes; not thread-safe."""

    def __init__(
        self,
        runner: Runner,
        source: SpecialistSource,
        parameters: CurrentConfigs,
        announcer: Announcer,
        rules: SkewRules,
        seen: SeenClasses,
    ) -> None:
        super().__init__(runner)
        self._source, self._parameters, self._announcer, self._rules = source, parameters, announcer, rules
        self._seen = seen
        self._output = class_output(runner.engine.model)
        self._loader = TrunkLoader(source, self._say)
        self._trunks: dict[str, Model] = {}
        self._specialiser = source.new_specialiser(rules, seen)
        self._making: SpecialistThread | None = None
        self._small: _Small | None = None
        self._is_behind = False  # whether a specialist has answered since the variant's last answer
        self._in_use: Dominance | None = None
        self._answers: Counter[Answered] = Counter()
        self._is_on = True
        self._tell()

    def add(self, link: MapUpdate) -> None:
        """Add the map update of a frame to the variant's cache and the specialist's."""
        super().add(link)
        if self._small is not None:
            self._small.cached.add(link)

    def run(self, image: NDArray[np.uint8], stamp_ns: int, config: EngineConfig) -> FrameResult:
        """Run a frame, with the specialist first, if there is one.

        A specialist's answer has the model's outputs, and :data:`SPECIALIST` in ``variant``, which is empty for other
        answers.
        """
        self._follow_parameter()
        if not self._is_on:
            result = self._run_whole(image, stamp_ns, config)
            self._seen.add(int(result.engine.outputs[self._output].argmax()), stamp_ns / _NS_PER_S)
            return result
        self._take_what_was_made()
        small_ran: list[FrameResult] = []
        whole_ran: list[FrameResult] = []

        def small() -> Floats:
            assert self._small is not None
            small_ran.append(self._small.cached.run(image, stamp_ns, config))
            (features,) = small_ran[0].engine.outputs.values()
            return np.asarray(features.ravel(), np.float32)

        def generic() -> int:
            whole_ran.append(self._run_whole(image, stamp_ns, config))
            return int(whole_ran[0].engine.outputs[self._output].argmax())

        specialiser = self._specialiser
        verdict = cascade(specialiser.specialist, small, generic, audit=specialiser.audit_due)
        self._is_behind = not whole_ran
        self._obey(specialiser.observe(verdict.class_id, verdict.answered, stamp_ns / _NS_PER_S))
        if verdict.answered is not Answered.GENERIC:
            self._answers[verdict.answered] += 1
        self._tell()
        return self._result(verdict, small_ran, whole_ran, (image.shape[0], image.shape[1]))

    def _run_whole(self, image: NDArray[np.uint8], stamp_ns: int, config: EngineConfig) -> FrameResult:
        """Run the variant; an answer of its own from before a specialist's answers does not stand."""
        if self._is_behind:
            self._is_behind = False
            self.runner.reset(keeps_cache=True)
        return super().run(image, stamp_ns, config)

    def forget(self) -> None:
        """Forget all earlier frames: the next one is computed as the first."""
        super().forget()
        if self._small is not None:
            self._small.cached.forget()

    def forget_from(self, stamp_ns: int) -> None:
        """Forget cached frames from this time on, as time went back."""
        super().forget_from(stamp_ns)
        if self._small is not None:
            self._small.cached.forget_from(stamp_ns)

    def audit_if_due(self, *, idle: bool) -> None:
        """Check the losses of variant and small trunk against bounded mode's promise, where due."""
        super().audit_if_due(idle=idle)
        if self._small is not None:
            self._small.cached.audit_if_due(idle=idle)

    def close(self) -> None:
        """Stop making specialists, release the networks, and clear the diagnostics."""
        self._end(f"{self._source.variant} is not loaded any more")
        self._drop_small()
        super().close()
        for name in ("specialising", "specialist_classes", "specialist_passed"):
            self._announcer.note(name, _NOTHING)

    def _follow_parameter(self) -> None:
        is_wanted = self._parameters.get(CatalogConfig).specialise
        if is_wanted == self._is_on:
            return
        self._is_on = is_wanted
        if not is_wanted:
            self._end("specialise is false")
            self._drop_small()
            self._specialiser = self._source.new_specialiser(self._rules, self._seen)
            self._loader, self._trunks = TrunkLoader(self._source, self._say), {}
        self._tell()

    def _obey(self, order: Prepare | Withdraw | None) -> None:
        if isinstance(order, Withdraw):
            self._end(order.why)
        elif isinstance(order, Prepare):
            self._prepare(order.dominance)

    def _prepare(self, dominance: Dominance) -> None:
        self._trunks = {}
        with guarded("small trunks") as failure:
            # in this thread, as two networks cannot be exported at the same time
            self._trunks = self._loader.load(dominance.pair, self.runner.engine.model)
        if not self._trunks:
            self._refuse(dominance, failure.reason or "there is no small trunk")
            return
        work = partial(make_specialist, self._source.folder, dominance, self._source.variant, self._trunks)
        self._making = SpecialistThread(dominance, work)

    def _refuse(self, dominance: Dominance, why: str) -> None:
        self._specialiser.rejected()
        self._say(f"no specialist for {self._names(dominance)}: {why}")

    def _take_what_was_made(self) -> None:
        making = self._making
        if making is None or making.outcome is None:
            return
        self._making, outcome = None, making.outcome
        if isinstance(outcome, Made):
            with guarded("a specialist's trunk") as failure:
                self._prepare_small(outcome.trunk)
            if failure:
                outcome = Rejected(why=f"its trunk cannot be loaded: {failure.reason}")
        if isinstance(outcome, Rejected):
            self._refuse(making.dominance, outcome.why)
        elif self._specialiser.deployed(outcome.specialist):
            self._in_use = making.dominance
            self._answers.clear()
            expected = outcome.specialist.expected
            names = self._names(making.dominance)
            self._say(
                f"a specialist for {names} answers first, from {outcome.trunk}; "
                f"{expected.latency_ms:.2f} ms a frame instead of {expected.generic_ms:.2f} are expected"
            )

    def _prepare_small(self, trunk: str) -> None:
        """Load a trunk in the thread that runs it: its kernel threads would inherit a low priority."""
        if self._small is not None and self._small.name == trunk:
            self._small.cached.runner.reset(keeps_cache=True)  # it has seen no frame since it was last in use
        else:
            self._drop_small()  # first, as there may be no memory for both
            config = self._parameters.get(EngineConfig)
            runner = Runner(
                self._trunks[trunk], config, lambda name, text: self._announcer.note(f"specialist {name}", text)
            )
            self._small = _Small(name=trunk, cached=CachedModel(runner))

    def _drop_small(self) -> None:
        if self._small is not None:
            self._small.cached.close()
            self._small = None

    def _end(self, why: str) -> None:
        """Withdraw the specialist, and cancel one that is being made."""
        making, in_use = self._making, self._in_use
        self._making = self._in_use = None
        if making is not None:
            making.cancel()
            self._say(f"no specialist is made for {self._names(making.dominance)}: {why}")
        elif in_use is not None:
            self._say(f"the specialist for {self._names(in_use)} is withdrawn: {why}")

    def _say(self, text: str) -> None:
        self._announcer.say(f"{self._source.catalog.file.name}: {text}")

    def _names(self, dominance: Dominance) -> str:
        labels = self.runner.engine.model.card.labels
        return ", ".join(labels[c] if c < len(labels) else str(c) for c in dominance.classes)

    def _tell(self) -> None:
        specialist = self._specialiser.specialist
        self._announcer.note("specialising", self._specialiser.stage.value if self._is_on else "off")
        self._announcer.note("specialist_classes", self._names(specialist.dominance) if specialist else _NOTHING)
        shown, passed = self._answers.total(), self._answers[Answered.PASSED_ON]
        self._announcer.note("specialist_passed", f"{passed / shown:.2f}" if specialist and shown else _NOTHING)

    def _result(
        self, verdict: Verdict, small: list[FrameResult], whole: list[FrameResult], image_size: tuple[int, int]
    ) -> FrameResult:
        took = {SPECIALIST: small[0].engine.total_ms} if small else {}
        if verdict.logits is None:
            return whole[0].after(took)
        outputs = {self._output: verdict.logits}
        return replace(
            small[0],
            variant=f"{self._source.variant}@{SPECIALIST}",
            engine=replace(small[0].engine, stage_ms=took, outputs=outputs, motion=Motion.none()),
            decoded=decode(outputs, self.runner.engine.model.card, image_size),
        )
