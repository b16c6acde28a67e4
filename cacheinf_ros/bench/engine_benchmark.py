# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench engine``: the cached engine against every dense one, frame by frame in one run."""

from __future__ import annotations

import copy
import itertools
import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from cacheinf_ros.bench.contenders import AnyContender, Contender, build_contenders, contenders_on, is_gpu
from cacheinf_ros.bench.measures import mean_and_max
from cacheinf_ros.bench.output_errors import ErrorScale
from cacheinf_ros.bench.policies import skipping
from cacheinf_ros.bench.race import CACHED, Log, Race
from cacheinf_ros.bench.shots import Image, Shot, varied_images
from cacheinf_ros.bench.timing import summary, timed
from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine import Engine, EngineConfig, Preprocessor
from cacheinf_ros.engine.dense_backends import UNCOUNTED_ON_GPU, Dense, run_by_torch
from cacheinf_ros.errors import SourceError
from cacheinf_ros.graph import Model
from cacheinf_ros.matching import MatcherName, MatchingConfig, MatchingStream, usable
from cacheinf_ros.mode import Mode

_log = logging.getLogger(__name__)
_GIVEN_MAPS = "exact to the pixel, made before the clock starts, as no matcher could know them"


def warm_up_frames(device: str) -> int:
    """Return how many frames every contender runs on a device before any frame is counted."""
    return UNCOUNTED_ON_GPU if is_gpu(device) else 2


def check_count(frames: int, least: int) -> None:
    """Raise :class:`SourceError` where a source has fewer frames than a benchmark needs."""
    if frames < least:
        raise SourceError(f"the source has {frames} frames; the benchmark needs at least {least}")


def run_engine_benchmark(
    model: Model,
    shots: Iterable[Shot],
    *,
    config: EngineConfig,
    matching: MatchingConfig | None,
    frames: int,
    calibration_frames: int,
    contenders: Sequence[AnyContender] | None = None,
) -> dict[str, Any]:
    """Measure a model on a stream of frames.

    A frame's latency counts all that an engine needs: preparing the image, and for the cached engine matching too.

    Args:
        matching: how cache maps are made; None: the shots bring theirs.
        frames: how many frames are counted, at most.
        calibration_frames: how many frames come before those, for bounded mode to be calibrated on.
        contenders: the dense engines; None: all that compute where the cached engine does.

    Raises:
        SourceError: there are not enough frames.
    """
    torch.set_num_threads(config.threads)
    warm_up = warm_up_frames(config.device)
    before, taken = _taken(shots, calibration_frames if config.mode is Mode.BOUNDED else 0, warm_up, frames)
    engine = Engine(model, config)
    if matching is not None:
        if model.card.pictures > 1:  # no motion of the frame is one of them
            matching = matching.changed(matcher=MatcherName.IDENTITY)
        matching = usable(matching, config.mode, engine.cost.dense_ms)
    calibration_ms = timed(engine.calibrate, *_calibrated_on(before, matching))[1] if before else None
    images = [shot.image for shot in taken]
    wanted = contenders_on(config.device) if contenders is None else contenders
    dense, missing = build_contenders(model, wanted, config.threads, images, config.device)
    exact = dense.get(Contender.EAGER) or _eager(model, config.device)
    scale = ErrorScale(_varied_outputs(model, exact, images))
    race = Race(engine, MatchingStream(matching) if matching else None, dense, exact, scale)
    for index, shot in enumerate(taken):
        race.run(shot, turn=index, counts=index >= warm_up)
    return {
        "model": model.name,
        "size": "x".join(map(str, model.input_size)),
        "frames": len(race.log.reuse),
        **_settings(config, matching, len(before), calibration_ms),
        "kernels": engine.kernel_name,
        "cache_mb": round(engine.cache_bytes / 1e6, 1),
        "arena_mb": round(engine.arena_bytes / 1e6, 1),
        **speed(race.log, [name for name, loss in race.contender_losses().items() if loss["kept"]]),
        "contender_losses": race.contender_losses(),
        "not_measured": missing,
        **_quality(race),
    }


def _eager(model: Model, device: str) -> Dense:
    """Return the module itself, in float32: the graph that was made of it may be wrong.

    It runs on the engine's device, which is faster, where it puts nothing on the CPU of its own accord.
    """
    if is_gpu(device):
        there = run_by_torch(copy.deepcopy(model.module).to(device), device=device)
        try:
            there(np.zeros((1, 3, *model.input_size), np.float32))
            return there
        except RuntimeError as error:
            _log.info("the reference runs on the CPU: on %s %s", device, str(error).splitlines()[0])
    return run_by_torch(model.module)


def _calibrated_on(shots: Sequence[Shot], matching: MatchingConfig | None) -> tuple[list[Image], list[CacheMap | None]]:
    """Return the frames to calibrate on, with the maps that the engine would be given for them."""
    stream = MatchingStream(matching) if matching else None
    maps = [stream.match(shot.image) if stream else shot.cache_map for shot in shots]
    return [shot.image for shot in shots], maps


def _taken(shots: Iterable[Shot], before: int, warm_up: int, frames: int) -> tuple[list[Shot], list[Shot]]:
    """Return the shots to calibrate on, and those to measure, which begin with those to warm up."""
    taken = list(itertools.islice(shots, before + warm_up + frames))
    check_count(len(taken), before + warm_up + 1)
    return taken[:before], taken[before:]


def _varied_outputs(model: Model, exact: Dense, images: Sequence[Image]) -> Iterator[list[Any]]:
    preprocessor = Preprocessor(model.card)
    for image in varied_images(images):
        yield exact(preprocessor.input(image))


def _settings(
    config: EngineConfig, matching: MatchingConfig | None, calibration_frames: int, calibration_ms: float | None
) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "mode": config.mode.value,
        "threads": config.threads,
        "device": config.device,
        "cache": config.cache.value,
        "cache_budget_mb": config.cache_budget_mb,
        "cache_maps": _GIVEN_MAPS if matching is None else _matching(matching),
    }
    if config.mode is Mode.BOUNDED:
        settings |= {"max_error": config.max_error, "max_missed": config.max_missed}
        settings["calibration"] = {"frames": calibration_frames, "ms": calibration_ms}
    return settings


def _matching(config: MatchingConfig) -> dict[str, Any]:
    # JSON has no infinity
    return {name: str(v) if v == math.inf else v for name, v in config.model_dump(mode="json").items()}


def speed(log: Log, keeping: Sequence[str]) -> dict[str, Any]:
    """Return latencies and ratios, by the mean.

    With a cache most frames are cheap and some expensive, and a median would hide those.

    Args:
        keeping: contenders of lower precision that keep the promise.
    """
    full, cached, active = log.dense_ms, log.cached_ms, float(np.mean(log.active))
    dense = {**full, **{name: float(np.mean(log.latency_ms[name])) for name in keeping}}
    best = min(dense, key=dense.__getitem__) if dense else None
    best_full = min(full, key=full.__getitem__) if full else None
    latency_ms = {name: summary(values) for name, values in log.latency_ms.items()}
    audits = {name: mean_and_max(values) for name, values in log.audits.items()}
    return {
        "reuse_ratio": {"mean": round(float(np.mean(log.reuse)), 4)},
        "active_flops": {"mean": round(active, 4)},
        "latency_ms": latency_ms,
        "stage_ms": {name: summary(values) for name, values in log.stage_ms.items()},
        "best_dense": best,
        "speedup_vs_best_dense": round(dense[best] / cached, 3) if best else None,
        "best_dense_fp32": best_full,
        "speedup_vs_best_dense_fp32": round(full[best_full] / cached, 3) if best_full else None,
        "speedup_vs_eager": round(dense["dense_eager"] / cached, 3) if "dense_eager" in dense else None,
        "efficiency": round(active * full[best_full] / cached, 3) if best_full else None,
        "audits": audits or None,
    }


def _quality(race: Race) -> dict[str, Any]:
    quality = race.measures.report()
    if race.losses is not None:
        if race.log.dense_ms:
            skipped = skipping(race.log.latency_ms[CACHED], min(race.log.dense_ms.values()))
            race.losses.add_sequence("frame_skip", skipped)
        quality |= race.losses.report(CACHED)
    return {**quality, "top1_agreement": quality["agreement"]["output"], "policies": _policies(race)}


def _policies(race: Race) -> dict[str, Any] | None:
    if not race.computed:
        return None
    return {
        "computed": round(race.computed / len(race.log.reuse), 4),
        "frame_skip": race.skipped.report(),
        "output_warp": race.warped.report() if race.warped.error else None,
    }
