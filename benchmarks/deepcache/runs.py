# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Measures time, energy, error and accuracy of whole frames with the three engines (figures 10, 11, 13 to 17)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.deepcache.clips import Clip
from benchmarks.deepcache.engines import DEEPCACHE, DEEPMON, NO_CACHE, WARM_UP, Answer, PaperEngine
from cacheinf_ros.energy.meters import EnergyMeter
from cacheinf_ros.errors import SourceError
from cacheinf_ros.graph import Model
from cacheinf_ros.matching import matching_for
from cacheinf_ros.mode import Mode

SWEEPS: dict[str, tuple[float, ...]] = {
    "threshold": (10, 15, 20, 25, 30, 35, 40),
    "block_size": (2, 5, 10, 15, 20, 30),
    "k_skip": (1, 2, 3, 4),
    "expiry": (1, 2, 5, 10, 20, 50),
}
"""Values of the parameters of section 7.5 (a block has at least two pixels here), and of the two that it only names."""
_TOP = (1, 3)


def compared(model: Model, clip: Clip, *, frames: int, threads: int) -> dict[str, Any]:
    """Measure figures 10, 11 and 14: ms per frame and error against no cache, engines taking turns on each frame."""
    answers = _answers(
        {n: PaperEngine(n, model, threads=threads) for n in (NO_CACHE, DEEPMON, DEEPCACHE)}, clip, frames
    )
    truth = answers[NO_CACHE]
    found: dict[str, Any] = {"clip": clip.label}
    for name, given in answers.items():
        found[f"{name}_ms"] = _ms(given)
        if name != NO_CACHE:
            found[f"{name}_saved"] = round(1 - found[f"{name}_ms"] / found[f"{NO_CACHE}_ms"], 3)
            found[f"{name}_reused"] = round(float(np.mean([a.reused for a in given])), 3)
            errors = _squared_errors(truth, given)
            found[f"{name}_mse"] = float(f"{np.mean(errors):.4g}")
            found[f"{name}_median_mse"] = float(f"{np.median(errors):.4g}")
    return found


def swept(model: Model, clip: Clip, parameter: str, *, frames: int, threads: int) -> list[dict[str, Any]]:
    """Measure figures 16 and 17: one parameter of DeepCache varied, against no cache."""
    settings = {value: matching_for(Mode.DEEPCACHE).changed(**{parameter: value}) for value in SWEEPS[parameter]}
    engines = {str(value): PaperEngine(DEEPCACHE, model, s, threads=threads) for value, s in settings.items()}
    answers = _answers({NO_CACHE: PaperEngine(NO_CACHE, model, threads=threads), **engines}, clip, frames)
    truth = answers.pop(NO_CACHE)
    dense_ms = _ms(truth)
    return [
        {
            parameter: value,
            "ms": _ms(given),
            "no_cache_ms": dense_ms,
            "saved": round(1 - _ms(given) / dense_ms, 3),
            "matching_ms": round(float(np.mean([a.matching_ms for a in given])), 3),
            "reused": round(float(np.mean([a.reused for a in given])), 3),
            "same_top1": round(float(np.mean([_first(a) == _first(b) for a, b in zip(truth, given, strict=True)])), 3),
            "mse": float(f"{np.mean(_squared_errors(truth, given)):.4g}"),
        }
        for value, given in answers.items()
    ]


def energy(model: Model, clip: Clip, meter: EnergyMeter, *, frames: int, threads: int) -> list[dict[str, Any]]:
    """Measure figure 15: joules per frame by the meter, one engine after the other, without frames to warm up.

    Raises :class:`SourceError` where the clip has too few frames.
    """
    images = clip.images(frames + WARM_UP)
    if len(images) <= WARM_UP:
        raise _too_few(clip)
    rows = []
    for name in (NO_CACHE, DEEPMON, DEEPCACHE):
        engine = PaperEngine(name, model, threads=threads)
        for image in images[:WARM_UP]:  # the first frames allocate and pack, whichever engine it is
            engine.run(image)
        before = meter.joules()
        for image in images[WARM_UP:]:
            engine.run(image)
        joules = (meter.joules() - before) / (len(images) - WARM_UP)
        rows.append({"engine": name, "joules_per_frame": round(joules, 4)})
    return rows


def accuracy(model: Model, clips: Sequence[Clip], *, frames: int, threads: int) -> list[dict[str, Any]]:
    """Measure figure 13: the share of clips whose class is among the first by the mean answer to the clip's frames.

    The model's classes are its card's labels, or else the clips' labels in alphabetical order.

    Raises:
        SourceError: the model does not have one output for each class.
    """
    labels = list(model.card.labels) or sorted({clip.label for clip in clips})
    rows = []
    for name in (NO_CACHE, DEEPMON, DEEPCACHE):
        engine, ranks = PaperEngine(name, model, threads=threads), []
        for clip in clips:
            engine.begin()
            mean = np.mean([engine.run(image).outputs for image in clip.images(frames)], axis=0)
            ranks.append(_rank(mean, labels, clip.label))
        rows.append({"engine": name, **{f"top{n}": round(float(np.mean([r < n for r in ranks])), 4) for n in _TOP}})
    return rows


def _answers(engines: dict[str, PaperEngine], clip: Clip, frames: int) -> dict[str, list[Answer]]:
    """Run all engines on the same frames, in turn, and return their answers without the warm-up.

    Raises :class:`SourceError` where the clip has too few frames.
    """
    answers: dict[str, list[Answer]] = {name: [] for name in engines}
    for image in clip.images(frames + WARM_UP):
        for name, engine in engines.items():
            answers[name].append(engine.run(image))
    if min(map(len, answers.values())) <= WARM_UP:
        raise _too_few(clip)
    return {name: given[WARM_UP:] for name, given in answers.items()}


def _too_few(clip: Clip) -> SourceError:
    return SourceError(f"{clip.source} has too few frames: {WARM_UP + 1} are needed at least")


def _ms(answers: Sequence[Answer]) -> float:
    """Return the mean time, ms; it includes frames after expiry."""
    return round(float(np.mean([answer.total_ms for answer in answers])), 3)


def _squared_errors(truth: Sequence[Answer], given: Sequence[Answer]) -> list[float]:
    """Return the mean squared error of each frame's outputs."""
    return [float(np.mean((a.outputs - b.outputs) ** 2)) for a, b in zip(truth, given, strict=True)]


def _first(answer: Answer) -> int:
    return int(np.argmax(answer.outputs))


def _rank(scores: NDArray[np.floating[Any]], labels: Sequence[str], label: str) -> int:
    """Return how many classes come before the right one; raises :class:`SourceError` where outputs do not fit them."""
    if len(scores) != len(labels) or label not in labels:
        raise SourceError(
            f"the model has {len(scores)} outputs, and the classes are {', '.join(labels)}: it needs one for each, and "
            f"{label!r} among them (labels of its card)"
        )
    return int(np.sum(scores > scores[labels.index(label)]))
