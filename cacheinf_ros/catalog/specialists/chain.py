# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A specialist before the generic model, each with a cache of its own: MCDNN's cascade, section 5.2.1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, fold
from cacheinf_ros.catalog.specialists.cascade import cascade, class_output
from cacheinf_ros.catalog.specialists.specialiser import Answered
from cacheinf_ros.catalog.specialists.specialist import Specialist
from cacheinf_ros.engine import Engine, EngineResult, Mode

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

    Who answers is :func:`cascade`'s matter. The engines' caches are kept up to date only as far as frames need them:
    the maps of the frames that an engine was not shown are folded into one when it is shown one again. For users of the
    library, who have engines and maps; the nodes do the same with links of maps, of which any may be lost.
    """

    def __init__(self, small: Engine, generic: Engine) -> None:
        """Chain two engines.

        Args:
            small: of a trunk, see :func:`features.trunk_model`.
            generic: of the classifier.

        Raises:
            CatalogError: the generic model does not give one vector of classes.
        """
        self._small, self._generic = _Shown(small), _Shown(generic)
        self._output = class_output(generic.model)

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
        runs: list[EngineResult] = []
        not_shown = [self._small, self._generic]

        def show(engine: _Shown) -> NDArray[Any]:
            not_shown.remove(engine)
            runs.append(engine.run(image, cache_map))
            (output,) = runs[-1].outputs.values()
            return output

        try:
            verdict = cascade(
                specialist,
                small=lambda: show(self._small).ravel(),
                generic=lambda: int(show(self._generic).argmax()),
                audit=audit,
            )
        finally:  # also where one failed: the other has not seen the frame
            for engine in not_shown:
                engine.skip(cache_map)
        outputs = runs[-1].outputs if verdict.logits is None else {self._output: verdict.logits}
        return ChainResult(class_id=verdict.class_id, outputs=outputs, answered=verdict.answered, runs=tuple(runs))

    def reset(self) -> None:
        """Forget both caches."""
        self._small.reset()
        self._generic.reset()


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
