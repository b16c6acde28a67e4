# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A specialist before a variant on the device while few classes dominate its results: MCDNN, section 5.2.1."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.catalog.catalog_folder import CatalogFolder
from cacheinf_ros.catalog.linear import Floats
from cacheinf_ros.catalog.serving.node_configs import CatalogConfig
from cacheinf_ros.catalog.specialists.cascade import Verdict, cascade, class_output
from cacheinf_ros.catalog.specialists.dominance import Dominance
from cacheinf_ros.catalog.specialists.make import Made, load_trunks, make_specialist
from cacheinf_ros.catalog.specialists.retarget import Rejected
from cacheinf_ros.catalog.specialists.specialiser import (
    Answered,
    Prepare,
    SpecialiseConfig,
    Specialiser,
    Withdraw,
)
from cacheinf_ros.catalog.specialists.specialist_folder import SpecialiseFolder, original_name, read_specialise
from cacheinf_ros.config import CurrentConfigs
from cacheinf_ros.engine import EngineConfig, decode
from cacheinf_ros.errors import CacheinfError
from cacheinf_ros.graph import Model
from cacheinf_ros.pipeline.cached_model import CachedModel
from cacheinf_ros.pipeline.frame_result import FrameResult
from cacheinf_ros.pipeline.map_chain import MapUpdate
from cacheinf_ros.pipeline.runner import Runner

SPECIALIST = "specialist"
"""After the name of a variant, "original@specialist": it did not run, a specialist answered before it."""

_NICE = 10
_NOTHING = "n/a"
_NS_PER_S = 1e9
Note = Callable[[str, str], None]
Say = Callable[[str], None]


def specialised_cache(
    network: Model, catalog: CatalogFolder, variant: str, parameters: CurrentConfigs, note: Note, say: Say
) -> SpecialisedCache | None:
    """A variant with its cache and with specialists; None where the catalog has nothing that they are made from.

    Args:
        network: of the variant.
        catalog: that it is from.
        parameters: of the node.
        note: takes names and texts for the model's diagnostics.
        say: takes lines for the log.

    Raises:
        CatalogError: what specialists are made from cannot be read.
    """
    folder = read_specialise(catalog)
    if folder is None:
        return None
    if not folder.pairs_for(variant):
        note("specialising", f"none: {variant} is as fast as any small trunk")
        return None
    runner = Runner(network, parameters.get(EngineConfig), note)
    return SpecialisedCache(runner, catalog, folder, variant, parameters, note, say)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Small:
    """A small trunk that can run, and where it ends."""

    tensor: str
    held: CachedModel


class SpecialisedCache(CachedModel):
    """A variant of a classifier. Not for use from several threads; one of its own makes specialists."""

    def __init__(
        self,
        runner: Runner,
        catalog: CatalogFolder,
        folder: SpecialiseFolder,
        variant: str,
        parameters: CurrentConfigs,
        note: Note,
        say: Say,
    ) -> None:
        super().__init__(runner)
        self._catalog, self._folder, self._variant = catalog, folder, variant
        self._model = catalog.file.name
        self._parameters, self._note, self._say = parameters, note, say
        self._output = class_output(runner.engine.model)
        self._trunks: dict[str, Model] = {}
        self._specialiser = self._new_specialiser()
        self._making: _Making | None = None
        self._small: _Small | None = None
        self._in_use: Dominance | None = None
        self._answers: Counter[Answered] = Counter()
        self._is_on = True
        self._tell()

    def add(self, link: MapUpdate) -> None:
        """The map of a frame that model and specialist may be shown."""
        super().add(link)
        if self._small is not None:
            self._small.held.add(link)

    def run(self, image: NDArray[np.uint8], stamp_ns: int, config: EngineConfig) -> FrameResult:
        """Run a frame; the specialist goes first, if there is one.

        Its answer has the model's outputs, and ``variant`` says that it is its; of all others ``variant`` is empty.
        """
        run_whole = super().run
        self._follow_parameter()
        if not self._is_on:
            return run_whole(image, stamp_ns, config)
        self._take_what_was_made()
        small_ran: list[FrameResult] = []
        whole_ran: list[FrameResult] = []

        def small() -> Floats:
            assert self._small is not None
            small_ran.append(self._small.held.run(image, stamp_ns, config))
            (features,) = small_ran[0].outputs.values()
            return np.asarray(features.ravel(), np.float32)

        def generic() -> int:
            whole_ran.append(run_whole(image, stamp_ns, config))
            return int(whole_ran[0].outputs[self._output].argmax())

        specialiser = self._specialiser
        verdict = cascade(specialiser.specialist, small, generic, audit=specialiser.audit_due)
        self._obey(specialiser.observe(verdict.class_id, verdict.answered, stamp_ns / _NS_PER_S))
        if verdict.answered is not Answered.GENERIC:
            self._answers[verdict.answered] += 1
        self._tell()
        return self._result(verdict, small_ran, whole_ran, (image.shape[0], image.shape[1]))

    def forget_from(self, stamp_ns: int) -> None:
        """Time went back: what is cached belongs to frames of before."""
        super().forget_from(stamp_ns)
        if self._small is not None:
            self._small.held.forget_from(stamp_ns)

    def audit_if_due(self, *, idle: bool) -> None:
        """Check bounded mode's promise, of model and small trunk."""
        super().audit_if_due(idle=idle)
        if self._small is not None:
            self._small.held.audit_if_due(idle=idle)

    def close(self) -> None:
        """Nothing is made for it any more."""
        self._end(f"{self._variant} is not loaded any more")
        for name in ("specialising", "specialist_classes", "specialist_passed"):
            self._note(name, _NOTHING)

    def _new_specialiser(self) -> Specialiser:
        config = self._parameters.get(SpecialiseConfig)
        return Specialiser(config, self._folder.file.classes, self._folder.pairs_for(self._variant))

    def _follow_parameter(self) -> None:
        is_wanted = self._parameters.get(CatalogConfig).specialise
        if is_wanted == self._is_on:
            return
        self._is_on = is_wanted
        if not is_wanted:
            self._end("specialise is false")
            self._small, self._specialiser = None, self._new_specialiser()
        self._tell()

    def _obey(self, order: Prepare | Withdraw | None) -> None:
        if isinstance(order, Withdraw):
            self._end(order.why)
        elif isinstance(order, Prepare):
            self._prepare(order.dominance)

    def _prepare(self, dominance: Dominance) -> None:
        try:
            if not self._trunks:  # in this thread: two networks cannot be exported at the same time
                self._trunks = load_trunks(self._folder, self._original())
        except CacheinfError as error:
            self._refuse(dominance, f"the original cannot be loaded: {error}")
            return
        work = partial(make_specialist, self._folder, dominance, self._variant, self._trunks)
        self._making = _Making(dominance, work)

    def _refuse(self, dominance: Dominance, why: str) -> None:
        self._specialiser.rejected()
        self._say(f"{self._model}: no specialist for {self._names(dominance)}: {why}")

    def _original(self) -> Model:
        name = original_name(self._catalog)
        return self.runner.engine.model if name == self._variant else self._catalog.network(name)

    def _take_what_was_made(self) -> None:
        making = self._making
        if making is None or making.outcome is None:
            return
        self._making, outcome = None, making.outcome
        if isinstance(outcome, Made):
            try:
                self._prepare_small(outcome.tensor)
            except CacheinfError as error:
                outcome = Rejected(why=f"its trunk cannot be loaded: {error}")
        if isinstance(outcome, Rejected):
            self._refuse(making.dominance, outcome.why)
        elif self._specialiser.deployed(outcome.specialist):
            self._in_use = making.dominance
            self._answers.clear()
            expected = outcome.specialist.expected
            names = self._names(making.dominance)
            self._say(
                f"{self._model}: a specialist for {names} answers first, from {outcome.tensor}; "
                f"{expected.latency_ms:.2f} ms a frame instead of {expected.generic_ms:.2f} are expected"
            )

    def _prepare_small(self, tensor: str) -> None:
        """In the thread that runs it: its kernels' threads would inherit the other one's low priority."""
        if self._small is None or self._small.tensor != tensor:
            self._small = None  # first: there may be no memory for both
            config = self._parameters.get(EngineConfig)
            runner = Runner(self._trunks[tensor], config, lambda name, text: self._note(f"specialist {name}", text))
            self._small = _Small(tensor=tensor, held=CachedModel(runner))

    def _end(self, why: str) -> None:
        """No specialist from now on, and none is being made."""
        making, in_use = self._making, self._in_use
        self._making = self._in_use = None
        if making is not None:
            making.cancel()
            self._say(f"{self._model}: no specialist is made for {self._names(making.dominance)}: {why}")
        elif in_use is not None:
            self._say(f"{self._model}: the specialist for {self._names(in_use)} is withdrawn: {why}")

    def _names(self, dominance: Dominance) -> str:
        labels = self.runner.engine.model.card.labels
        return ", ".join(labels[c] if c < len(labels) else str(c) for c in dominance.classes)

    def _tell(self) -> None:
        specialist = self._specialiser.specialist
        self._note("specialising", self._specialiser.stage.value if self._is_on else "off")
        self._note("specialist_classes", self._names(specialist.dominance) if specialist else _NOTHING)
        shown, passed = self._answers.total(), self._answers[Answered.PASSED_ON]
        self._note("specialist_passed", f"{passed / shown:.2f}" if specialist and shown else _NOTHING)

    def _result(
        self, verdict: Verdict, small: list[FrameResult], whole: list[FrameResult], image_size: tuple[int, int]
    ) -> FrameResult:
        took = {SPECIALIST: sum(small[0].stage_ms.values())} if small else {}
        if verdict.logits is None:
            return replace(whole[0], stage_ms={**took, **whole[0].stage_ms})
        outputs = {self._output: verdict.logits}
        return replace(
            small[0],
            variant=f"{self._variant}@{SPECIALIST}",
            stage_ms=took,
            outputs=outputs,
            motion=Motion.none(),
            decoded=decode(outputs, self.runner.engine.model.card, image_size),
        )


class _Making:
    """A specialist in the making, in a thread of low priority.

    Attributes:
        dominance: what it is for.
        outcome: None: not yet there, or cancelled.
    """

    def __init__(self, dominance: Dominance, work: Callable[[Callable[[], bool]], Made | Rejected | None]) -> None:
        self.dominance = dominance
        self.outcome: Made | Rejected | None = None
        self._cancelled = threading.Event()
        self._threads = torch.get_num_threads()  # in the new thread it would be what another one has set last
        threading.Thread(target=self._run, args=(work,), name="specialising", daemon=True).start()

    def cancel(self) -> None:
        """It is not waited for any more."""
        self._cancelled.set()

    def _run(self, work: Callable[[Callable[[], bool]], Made | Rejected | None]) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        torch.set_num_threads(1)  # of this thread: so small a problem is slower with more, beside frames several times
        try:
            self.outcome = work(self._cancelled.is_set)
        except (CacheinfError, RuntimeError, ValueError, MemoryError) as error:
            self.outcome = Rejected(why=f"it could not be made: {error}")
        finally:
            torch.set_num_threads(self._threads)  # threads that start later begin with the last number set
