# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The engine: compile once, then ``run(frame, cache map) -> result``."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine.bounded import Calibration, calibrate
from cacheinf_ros.engine.bounded_mode import BoundedMode, CachedFrame, Compute
from cacheinf_ros.engine.caching import Caching
from cacheinf_ros.engine.compile import compile_program
from cacheinf_ros.engine.cost import DenseSwitch
from cacheinf_ros.engine.engine_config import EngineConfig
from cacheinf_ros.engine.execution.border import Border
from cacheinf_ros.engine.following import shift_unit
from cacheinf_ros.engine.partition.partition import Side
from cacheinf_ros.engine.partition.sharing import Division, RemotePeer, SharedProgram
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.engine.program import Program
from cacheinf_ros.engine.quantisation import executed_model
from cacheinf_ros.engine.result import EngineResult
from cacheinf_ros.errors import EngineError
from cacheinf_ros.geometry import NO_SHIFT, KeyframeWindow
from cacheinf_ros.graph import Model
from cacheinf_ros.mode import Mode

_log = logging.getLogger(__name__)
Image = NDArray[np.uint8]


class Engine:
    """A model with its cached feature maps. Not thread-safe; two engines are independent.

    Attributes:
        cost: how long the model's operators take on this machine.
        shared: how frames are shared with a server; None: there is none.
        bounded: holds changes back in mode ``bounded``, and audits the error.
    """

    def __init__(
        self,
        model: Model,
        config: EngineConfig,
        caching: Caching | None = None,
        *,
        with_server: bool = False,
        cameras: int = 1,
    ) -> None:
        """Compile a model.

        Args:
            caching: what to keep between frames; None: what the configuration asks for.
            with_server: whether a server may compute a part of frames; the engine is then computed alone, without those
                of other ``cameras``.
            cameras: how many engines of the model a GPU computes together, each in a thread of its own.

        Raises:
            EngineError: the configuration asks for something impossible.
        """
        executed, backend = executed_model(model, config)
        self.model = model
        self.kernel_name = backend.name
        self._preprocessor = Preprocessor(model.card)
        side = Side.ROBOT if with_server else None
        self.program, self.cost = compile_program(executed, config, backend, caching, side, cameras)
        self._input = backend.input(self._preprocessor, self.program.input, on_host=with_server)
        if with_server and backend.device.type != "cpu":
            _log.warning(
                "frames that may be shared with a server are computed on a GPU step by step, which is slower: leave "
                "server.use off where no server is near (docs/gpu.md)"
            )
        self.shared = SharedProgram(self.program, self._input) if with_server else None
        self._keyframe = KeyframeWindow(self._preprocessor.size, shift_unit(model.graph))
        self._cached = CachedFrame(
            program=self.program,
            compute=_computing(self.program, self.shared),
            input=self._input,
            keyframe=self._keyframe,
            frame=np.empty((*self._preprocessor.size, 3), np.uint8),
        )
        self.bounded = BoundedMode(self._cached, model.graph.input, config)
        self.program.profile.switch_kernels({name: curve.switch_from for name, curve in self.cost.curves.items()})
        self._switch = DenseSwitch()
        self._is_warm = False
        self._config = config
        self.configure(config)
        if model.graph.unknown:
            _log.warning(
                "model %s: these operators run densely on every frame: %s", model.name, ", ".join(model.graph.unknown)
            )

    @property
    def config(self) -> EngineConfig:
        """The configuration that was given last."""
        return self._config

    @property
    def cache_bytes(self) -> int:
        """The bytes of the feature maps that are kept between frames."""
        return self.program.maps.cache_bytes

    @property
    def arena_bytes(self) -> int:
        """The bytes of the arena in which all other feature maps lie, each while it is needed."""
        return self.program.maps.arena_bytes

    @property
    def composed(self) -> Image:
        """A copy of the keyframe, uint8 [height, width, 3] at the model's size: where exact execution would start."""
        return self._input.composed.copy()

    def configure(self, config: EngineConfig) -> None:
        """Apply the parameters that may change between frames: all those that are live.

        Where another mode follows deepcache or bounded, the next frame is computed completely, as these leave errors in
        the cache that the other one does not allow.
        """
        if config.mode is not self._config.mode and self._config.mode in (Mode.DEEPCACHE, Mode.BOUNDED):
            self.reset()
        self._config = config
        self.bounded.configure(config)

    def reset(self) -> None:
        """Forget the cache: the next frame is computed completely."""
        self._cached.is_whole = False

    @torch.inference_mode()
    def run(self, image: Image, cache_map: CacheMap | None, peer: RemotePeer | None = None) -> EngineResult:
        """Compute the outputs for a frame.

        Args:
            image: uint8 [height, width, 3], BGR.
            cache_map: what of the frame is reusable, relative to the frame composed by the runs before;
                None: nothing.
            peer: the server to share the work with; where that fails, and in mode ``deepcache``, all is done here.

        Raises:
            EngineError: the frame or its map is unusable; the cache is then empty.
        """
        with self.program.awake():
            return self._run(image, cache_map, peer)

    def calibrate(self, frames: Sequence[Image], maps: Sequence[CacheMap | None] | None = None) -> Calibration:
        """Find out on frames of the user's stream, in their order, which changes bounded mode may hold back.

        The cache is emptied. This takes seconds to minutes; with :func:`calibrate` and :meth:`BoundedMode.use` the
        engine can go on meanwhile.

        Raises:
            EngineError: there are fewer than two frames, or they are unusable.
        """
        self.reset()
        calibration = calibrate(self.model, frames, maps, self._config, self.program.caching)
        self.bounded.use(calibration)
        return calibration

    def input_of(self, composed: Image) -> NDArray[np.float32]:
        """Return the input, float32 [1, 3, height, width], that dense execution of a composed image starts from."""
        return self._preprocessor.input(composed)

    def _run(self, image: Image, cache_map: CacheMap | None, peer: RemotePeer | None) -> EngineResult:
        started = time.perf_counter_ns()
        reusable = cache_map if self._cached.is_whole else None
        self._cached.is_whole = False  # whatever fails below leaves no half-updated cache
        frame = self._input.fit(image)
        entry = self._enter(frame, self._reused(image, reusable))
        after_shared = self.shared is not None and self.shared.was_shared
        division = self._divided(peer)
        is_alone = division is None or division.is_alone
        refresh = entry.reused is None or (is_alone and self._prefers_dense(frame))
        prepared = time.perf_counter_ns()
        outputs = self._cached.compute(outside=entry.outside, refresh=refresh, division=division)
        computed = time.perf_counter_ns()
        self._cached.is_whole = True
        if self._config.mode is Mode.BOUNDED:
            self.bounded.count(list(outputs.values()), refreshed=refresh)
        if division is None and not after_shared:  # otherwise more is computed than has changed
            self._observe((computed - prepared) / 1e6, refresh=refresh)
        return EngineResult(
            outputs={name: value.cpu().numpy() for name, value in outputs.items()},
            mode=self._config.mode if entry.reused else Mode.DENSE,
            reuse_ratio=entry.reused.reuse_ratio if entry.reused and not refresh else 0.0,
            active_share=self.program.active_share,
            stage_ms={"prepare": (prepared - started) / 1e6, "compute": (computed - prepared) / 1e6},
            refreshed=refresh,
            where="shared" if self.shared is not None and self.shared.was_shared else "local",
            motion=self._keyframe.motion,
            shift=entry.shift,
        )

    def _reused(self, image: Image, cache_map: CacheMap | None) -> CacheMap | None:
        """Return the cache map if the mode can use it, else None; raises EngineError where its size is another."""
        if cache_map is not None and cache_map.image_size != image.shape[:2]:
            raise EngineError(f"the cache map is for {cache_map.image_size} pixels, the frame has {image.shape[:2]}")
        mode = self._config.mode
        if mode is Mode.DENSE or cache_map is None or cache_map.is_empty:
            return None
        mode = mode_of_maps(self, mode)
        shifts = mode is Mode.DEEPCACHE and cache_map.motion.shift is not None
        return cache_map if shifts or mode is Mode.BOUNDED or cache_map.motion.is_none else None

    def _enter(self, frame: Image, reused: CacheMap | None) -> _Entry:
        """Write the pixels that a frame changes to the place where the cache has them."""
        if reused is None:
            return self._enter_anew(frame)
        if self._config.mode is Mode.DEEPCACHE:
            self._move(reused)
            moved = not reused.motion.is_none
            self._input.touch(reused, with_margin=moved)
            self._input.write(frame, self.program.changed_input, everything=moved)
            return _Entry(reused=reused, outside=Border.ALL if moved else Border.NONE)
        if reused.motion.is_none and self._keyframe.is_frame:
            self._input.touch(reused)
            self._input.write(frame, self.program.changed_input, everything=False)
            return _Entry(reused=reused)
        return self._follow(frame, reused)

    def _follow(self, frame: Image, reused: CacheMap) -> _Entry:
        """Write the pixels that a frame changes where they lie on the keyframe, which may have to be moved first."""
        shift = self._keyframe.follow(self._preprocessor.in_input(reused.motion, reused.image_size))
        if shift is None:
            return self._enter_anew(frame)
        if shift != NO_SHIFT:
            self._input.move(*shift)
            self.program.shift(*shift)
            if self.shared is not None:
                self.shared.moved(*shift)
            self.bounded.moved(shift)
        self._input.touch(reused)
        changed, everything = self.program.changed_input, shift != NO_SHIFT
        if self._keyframe.is_frame:
            self._input.write(frame, changed, everything=everything)
        else:
            resized = self._preprocessor.resize(frame)
            np.copyto(self._cached.frame, resized)
            self._input.paint(resized, self._keyframe.motion, self._keyframe.unseen, changed, everything=everything)
            self._keyframe.painted()
        outside = Border.left_behind(*shift) if everything else Border.NONE
        return _Entry(reused=reused, outside=outside, shift=shift)

    def _enter_anew(self, frame: Image) -> _Entry:
        self._keyframe.restart()
        self._cached.write_all(frame)
        return _Entry()

    def _move(self, cache_map: CacheMap) -> None:
        """Move the cache with the picture (DeepCache section 4.3): each map by whole pixels of its own."""
        if cache_map.motion.is_none or cache_map.motion.shift is None:
            return
        dx, dy = self._preprocessor.scale_shift(cache_map.motion.shift, cache_map.image_size)
        self._input.move(round(dx), round(dy))
        self.program.maps.move(dx, dy)
        if self.shared is not None:
            self.shared.forget_server()

    def _divided(self, peer: RemotePeer | None) -> Division | None:
        if peer is None or self.shared is None or self._config.mode is Mode.DEEPCACHE:
            return None
        return self.shared.divide(peer)

    def _prefers_dense(self, frame: Image) -> bool:
        """Tell whether the cache would cost more than it saves; if so, mark all of the input as changed."""
        changed = self.program.changed_input
        if not self._config.dense_fallback or not self._switch.prefers_dense(
            lambda: self._input.count(changed) / changed.pixels
        ):
            return False
        if self._keyframe.is_frame:
            self._input.write_composed(changed)
        else:
            self._enter_anew(frame)
        return True

    def _observe(self, took_ms: float, *, refresh: bool) -> None:
        if not self._is_warm:  # the first frame takes up to ten times as long as others, which says nothing
            self._is_warm = True
        elif refresh:
            self._switch.observe_dense(took_ms)
        else:
            changed = self.program.changed_input
            self._switch.observe_cached(changed.count / changed.pixels, took_ms)


def mode_of_maps(engine: Engine, mode: Mode) -> Mode:
    """Return the mode whose maps an engine can use in this mode: exact, where frames show several pictures.

    A motion of the whole frame is one of none of the pictures in it, so that none is followed there.
    """
    return Mode.EXACT if engine.model.card.pictures > 1 else mode


def _computing(program: Program, shared: SharedProgram | None) -> Compute:
    """Return a function that runs the program, without a reference to the engine, which is freed with its owner."""

    def compute(
        *, outside: Border = Border.NONE, refresh: bool, division: Division | None = None
    ) -> dict[str, torch.Tensor]:
        if shared is not None:
            return shared.execute(outside=outside, refresh=refresh, division=division)
        return program.execute(outside=outside, refresh=refresh)

    return compute


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """How a frame got into the cache.

    Attributes:
        reused: the cache map of what was in the cache already; None: nothing was.
        outside: the sides beside which padding counts as changed.
        shift: see :class:`EngineResult`.
    """

    reused: CacheMap | None = None
    outside: Border = Border.NONE
    shift: tuple[int, int] = NO_SHIFT
