# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Compare what ``cacheinf advise`` picks with the best of an exhaustive sweep over what a user could set.

python -m benchmarks.advice_sweep CLIP MODEL [--weights FILE] [--frames 60] --json FILE    measures one pair
python -m benchmarks.advice_sweep --table FILE ...                                         prints docs/advise.md's table

The pick comes from a run as the command makes it. The pick and all other settings are then measured again, in one run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from cacheinf_ros.bench.advice import SKIPS, Target, advise, choices_for, own_settings
from cacheinf_ros.bench.own_way import OwnSettings
from cacheinf_ros.bench.shots import Shot, recorded
from cacheinf_ros.bench.stream import run_stream_benchmark
from cacheinf_ros.bench.stream_plan import BOUNDED, ENGINES, StreamPlan
from cacheinf_ros.bench.stream_run import StreamRun
from cacheinf_ros.cli.bench.bench_report import write_report
from cacheinf_ros.energy.power_model import PowerModel
from cacheinf_ros.engine import EngineConfig, Mode
from cacheinf_ros.graph import Model, load_model
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.sources import open_source

_PROMISES = (0.005, 0.03)  # in addition to those that advise tries
_THRESHOLDS = (20.0, 34.0)  # dB
_NEAR = 1.1


def main() -> None:
    """Measure one clip and model, or print the table of several."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clip", nargs="?")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--warm-up", type=int, default=28)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--table", type=Path, nargs="+")
    given = parser.parse_args()
    if given.table:
        print(table([json.loads(file.read_text(encoding="utf-8")) for file in given.table]))
        return
    source = open_source(given.clip)
    shots = list(islice(recorded(source), given.warm_up + given.frames))
    model = load_model(given.model, weights=given.weights)
    name = f"{Path(given.clip).stem}, {model.name}"
    report = compare(model, shots, given.frames, given.warm_up, source.fps)
    write_report(given.json, {"name": name, **report})
    print(table([{"name": name, **report}]))


def compare(model: Model, shots: Sequence[Shot], frames: int, warm_up: int, fps: float) -> dict[str, Any]:
    """Return what advise picks, and the mean time (ms) and loss of every setting in the sweep."""
    target, config = Target(), EngineConfig()
    engines = [engine for engine in ENGINES if not engine.precision.loses]  # no mode is just one of the others
    own = own_settings(target, config)
    started = time.monotonic()

    def measured(ways: dict[str, OwnSettings], skips: Sequence[int], *, is_brief: bool) -> StreamRun:
        plan = StreamPlan(
            own=ways, frames=frames, warm_up=warm_up, fps=fps, contenders=engines, skips=skips, is_brief=is_brief
        )
        return run_stream_benchmark(model, shots, plan)

    run = measured(own, SKIPS, is_brief=True)
    choices = choices_for(run.report["best_dense_fp32"], run.report["contender_losses"], own, skips=SKIPS)
    picked = advise(run, choices, target, PowerModel()).chosen.choice.name
    advised_s = time.monotonic() - started
    every = {**own, **_more(config)}
    run = measured(every, SKIPS, is_brief=False)
    usable = [choice.name for choice in choices_for("", (), every, skips=SKIPS)]
    ways = {
        name: {
            "mean_ms": run.mean_ms(name),
            "loss": loss.whole,
            "moving": loss.moving,
            "keeps": loss.within(target.limit),
        }
        for name in usable
        for loss in [run.loss(name)]
    }
    return {
        "picked": picked,
        "frames": frames,
        "ways": ways,
        "advised_s": advised_s,
        "all_s": time.monotonic() - started,
    }


def _more(config: EngineConfig) -> dict[str, OwnSettings]:
    """Return further settings of this package, by name."""
    promises = {
        f"{BOUNDED} {promise:g}": OwnSettings(config=config.changed(mode=Mode.BOUNDED, max_loss=promise))
        for promise in _PROMISES
    }
    thresholds = {
        f"exact {threshold:g} dB": OwnSettings(
            config=config.changed(mode=Mode.EXACT), matching=MatchingConfig(threshold=threshold)
        )
        for threshold in _THRESHOLDS
    }
    return promises | thresholds


def table(reports: Sequence[dict[str, Any]]) -> str:
    """Return the table of several reports, in Markdown."""
    lines = [
        "| clip, model | advised | ms | loss | best of the sweep | ms | loss | time of the best |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for report in reports:
        ways = report["ways"]
        best = min((name for name in ways if ways[name]["keeps"]), key=lambda name: ways[name]["mean_ms"])
        ours, least = ways[report["picked"]], ways[best]
        share = ours["mean_ms"] / least["mean_ms"]
        verdict = f"{share:.2f}" + ("" if share <= _NEAR and ours["keeps"] else " (!)")
        cells = [report["name"], report["picked"], *_figures(ours), best, *_figures(least), verdict]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _figures(way: dict[str, Any]) -> tuple[str, str]:
    return f"{way['mean_ms']:.1f}", f"{way['loss']:z.3f} / {way['moving']:z.3f}"


if __name__ == "__main__":
    main()
