"""``cacheinf bench engine``: the cached engine against every dense one, frame by frame in one run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.benchmarks.contenders import Contender, Dense, build_contenders
from cacheinf_ros.benchmarks.quality import ErrorScale, Outputs, agreement
from cacheinf_ros.benchmarks.timing import summary, timed
from cacheinf_ros.engine import Engine, EngineConfig, EngineResult, Mode, Preprocessor
from cacheinf_ros.errors import SourceError
from cacheinf_ros.graph import Model
from cacheinf_ros.matching import MatcherName, MatchingConfig, MatchingStream
from cacheinf_ros.sources.scenes import Gallery, load_photographs

Image = NDArray[np.uint8]
_WARM_UP = 2  # frames that every contender runs before any is counted


@dataclass(kw_only=True)
class _Measured:
    latency_ms: dict[str, list[float]] = field(default_factory=dict)
    stage_ms: dict[str, list[float]] = field(default_factory=dict)
    reuse: list[float] = field(default_factory=list)
    active: list[float] = field(default_factory=list)
    ours: list[Outputs] = field(default_factory=list)
    exact: list[Outputs] = field(default_factory=list)

    def add(self, name: str, milliseconds: float) -> None:
        self.latency_ms.setdefault(name, []).append(milliseconds)


def matching_for(mode: Mode, threshold_db: float | None) -> MatchingConfig:
    """What each mode is measured with: for exact identical pixels at the same place, for deepcache the paper's."""
    if mode is Mode.DEEPCACHE:
        return MatchingConfig(threshold=20.0 if threshold_db is None else threshold_db)
    return MatchingConfig(
        matcher=MatcherName.IDENTITY, threshold=math.inf if threshold_db is None else threshold_db, expiry=10000
    )


def run_engine_benchmark(
    model: Model,
    images: Iterable[Image],
    *,
    frames: int,
    mode: Mode,
    threads: int,
    threshold_db: float | None = None,
    device: str = "cpu",
    contenders: tuple[Contender, ...] = tuple(Contender),
) -> dict[str, Any]:
    """Measure a model on a stream of frames.

    A frame's latency counts all that its engine needs: preparing the image, for ours matching too.

    Raises:
        SourceError: there are not enough frames.
    """
    torch.set_num_threads(threads)
    taken = list(itertools.islice(images, frames + _WARM_UP))
    if len(taken) <= _WARM_UP:
        raise SourceError(f"the source has {len(taken)} frames; the benchmark needs at least {_WARM_UP + 1}")
    engine = Engine(model, EngineConfig(mode=mode, device=device, threads=threads))
    dense = build_contenders(model, contenders, threads)
    exact = (
        dense.get(Contender.CHANNELS_LAST)
        or build_contenders(model, (Contender.CHANNELS_LAST,), threads)[Contender.CHANNELS_LAST]
    )
    measured = _measure(engine, taken, MatchingStream(matching_for(mode, threshold_db)), dense, exact)
    return {
        "model": model.name,
        "size": "x".join(map(str, model.input_size)),
        "frames": len(measured.reuse),
        "mode": mode.value,
        "threads": threads,
        "kernels": engine.kernel_name,
        "cache_mb": round(engine.cache_bytes / 1e6, 1),
        **_report(measured, exact, model, taken),
    }


def _measure(
    engine: Engine, images: list[Image], stream: MatchingStream, dense: dict[Contender, Dense], exact: Dense
) -> _Measured:
    measured = _Measured()
    preprocessor = Preprocessor(engine.model.card)
    for index, image in enumerate(images):
        counted = index >= _WARM_UP
        result, total = timed(_cached, engine, stream, image)
        if counted:
            measured.add("cached", total)
            measured.reuse.append(result.reuse_ratio)
            measured.active.append(result.active_share)
            for stage, milliseconds in result.stage_ms.items():
                measured.stage_ms.setdefault(stage, []).append(milliseconds)
            measured.ours.append([np.array(value) for value in result.outputs.values()])
        for contender, run in dense.items():
            _, total = timed(_dense, run, preprocessor, image)
            if counted:
                measured.add(contender.value, total)
        if counted:
            measured.exact.append([np.array(value) for value in exact(preprocessor.input(image))])
    return measured


def _cached(engine: Engine, stream: MatchingStream, image: Image) -> EngineResult:
    return engine.run(image, None if engine.mode is Mode.DENSE else stream.match(image))


def _dense(run: Dense, preprocessor: Preprocessor, image: Image) -> Outputs:
    return run(preprocessor.input(image))


def _report(measured: _Measured, exact: Dense, model: Model, images: list[Image]) -> dict[str, Any]:
    scale = ErrorScale([exact(Preprocessor(model.card).input(image)) for image in _varied(images)])
    errors = [scale.error(a, b) for a, b in zip(measured.ours, measured.exact, strict=True)]
    agreements = [
        equal for a, b in zip(measured.ours, measured.exact, strict=True) if (equal := agreement(a, b)) is not None
    ]
    latency = {name: summary(values) for name, values in measured.latency_ms.items()}
    # by the mean: a cache makes most frames cheap and some dear, and a median would hide the dear ones
    dense = {name: values["mean"] for name, values in latency.items() if name != "cached"}
    cached = latency["cached"]["mean"]
    return {
        "reuse_ratio": {"mean": round(float(np.mean(measured.reuse)), 4)},
        "active_flops": {"mean": round(float(np.mean(measured.active)), 4)},
        "latency_ms": latency,
        "stage_ms": {name: summary(values) for name, values in measured.stage_ms.items()},
        "best_dense": min(dense, key=dense.__getitem__) if dense else None,
        "speedup_vs_best_dense": round(min(dense.values()) / cached, 3) if dense else None,
        "speedup_vs_eager": round(dense["dense_eager"] / cached, 3) if "dense_eager" in dense else None,
        "output_error": {"mean": float(np.mean(errors)), "max": float(np.max(errors))},
        "top1_agreement": float(np.mean(agreements)) if agreements else None,
    }


def _varied(images: list[Image]) -> list[Image]:
    """Images that differ: three frames of the source, and photographs that have nothing to do with it."""
    height, width = images[0].shape[:2]
    photographs = [np.asarray(cv2.resize(image, (width, height)), np.uint8) for image in load_photographs(Gallery.TEST)]
    return [images[i] for i in sorted({0, len(images) // 2, len(images) - 1})] + photographs
