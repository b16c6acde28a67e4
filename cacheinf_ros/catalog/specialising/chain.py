"""A specialist before the generic model, each with a cache of its own: MCDNN's cascade, section 5.2.1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, fold
from cacheinf_ros.catalog.specialising.specialiser import Answered
from cacheinf_ros.catalog.specialising.specialist import Specialist
from cacheinf_ros.engine import Engine, EngineResult, Mode
from cacheinf_ros.errors import CatalogError

_MOST_BEHIND = 20
"""Frames that an engine was not shown, after which nothing of its cache is taken to be of use."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChainResult:
    """The answer to one frame.

    Attributes:
        class_id: of the generic model's classes.
        outputs: as the generic model gives them; of a specialist's answer: logarithms of probabilities.
        answered: by whom.
        runs: of the engines that ran, in order.
    """

    class_id: int
    outputs: dict[str, NDArray[Any]]
    answered: Answered
    runs: tuple[EngineResult, ...]

    @property
    def compute_ms(self) -> float:
        """Of all engines."""
        return sum(sum(run.stage_ms.values()) for run in self.runs)


class Chain:
    """Answers frames with a specialist where there is one, else with the generic model.

    The engines' caches are kept up to date only as far as frames need them: the maps of the frames that an engine was
    not shown are folded into one when it is shown one again.
    """

    def __init__(self, small: Engine, generic: Engine) -> None:
        """Chain two engines.

        Args:
            small: of a trunk, see :func:`features.trunk_model`.
            generic: of the classifier.

        Raises:
            CatalogError: the generic model does not give one vector of classes.
        """
        outputs = generic.model.graph.outputs
        if len(outputs) != 1 or len(generic.model.graph.tensors[outputs[0][1]].shape) != 2:
            raise CatalogError(f"model {generic.model.name} cannot be specialised: its output is no vector of classes")
        self._small, self._generic = _Shown(small), _Shown(generic)
        self._output = outputs[0][0]

    def run(
        self,
        image: NDArray[np.uint8],
        cache_map: CacheMap | None,
        specialist: Specialist | None = None,
        *,
        audit: bool = False,
    ) -> ChainResult:
        """Answer a frame.

        Args:
            image: uint8 [height, width, 3], BGR.
            cache_map: what of it is reusable, relative to the frame before; None: nothing.
            specialist: for the small engine's features; None: the generic model answers.
            audit: ask the generic model too.

        Raises:
            EngineError: the frame or its map is unusable.
        """
        if specialist is None:
            self._small.skip(cache_map)
            return self._generically(image, cache_map, (), Answered.GENERIC)
        small = self._small.run(image, cache_map)
        (features,) = small.outputs.values()
        answer = specialist.answer(features.ravel())
        if answer.class_id is None:
            return self._generically(image, cache_map, (small,), Answered.PASSED_ON)
        if not audit:
            self._generic.skip(cache_map)
            outputs: dict[str, NDArray[Any]] = {self._output: specialist.logits(answer)}
            return ChainResult(class_id=answer.class_id, outputs=outputs, answered=Answered.SPECIALIST, runs=(small,))
        checked = self._generically(image, cache_map, (small,), Answered.CONFIRMED)
        if checked.class_id == answer.class_id:
            return checked
        return ChainResult(
            class_id=checked.class_id, outputs=checked.outputs, answered=Answered.CONTRADICTED, runs=checked.runs
        )

    def reset(self) -> None:
        """Forget both caches."""
        self._small.reset()
        self._generic.reset()

    def _generically(
        self, image: NDArray[np.uint8], cache_map: CacheMap | None, before: tuple[EngineResult, ...], by: Answered
    ) -> ChainResult:
        result = self._generic.run(image, cache_map)
        class_id = int(result.outputs[self._output].argmax())
        return ChainResult(class_id=class_id, outputs=result.outputs, answered=by, runs=(*before, result))


class _Shown:
    """An engine, and the maps of the frames that it was not shown."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._behind: list[CacheMap] | None = None  # None: nothing that it holds can be used

    def run(self, image: NDArray[np.uint8], cache_map: CacheMap | None) -> EngineResult:
        whole = self._folded(cache_map)
        self._behind = None  # where the engine fails, its cache is empty
        result = self._engine.run(image, whole)
        self._behind = []
        return result

    def skip(self, cache_map: CacheMap | None) -> None:
        """Frames are folded when they are needed: most often they are not."""
        if self._behind is None:
            return
        if cache_map is None or len(self._behind) >= _MOST_BEHIND or self._engine.config.mode is Mode.DENSE:
            self._behind = None
        else:
            self._behind.append(cache_map)

    def reset(self) -> None:
        self._engine.reset()
        self._behind = None

    def _folded(self, cache_map: CacheMap | None) -> CacheMap | None:
        if self._behind is None or cache_map is None:
            return None
        return fold([*self._behind, cache_map])
