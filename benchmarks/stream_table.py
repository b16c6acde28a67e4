# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Measures bounded mode with its defaults on many recordings, with many models: docs/benchmarks.md's table.

python -m benchmarks.stream_table --models A.onnx B.onnx --sources CLIP FOLDER... --keep FOLDER

Each pair is measured as ``cacheinf bench stream --no-nodes`` does it. Results are stored in FOLDER, so that an
interrupted run can be continued. A folder of frames may hold masks beside them (DAVIS). A model with a file of weights
is given as ``GRAPH:WEIGHTS``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cacheinf_ros.bench.contenders import Contender
from cacheinf_ros.bench.own_way import OwnSettings
from cacheinf_ros.bench.shots import recorded
from cacheinf_ros.bench.stream import run_stream_benchmark
from cacheinf_ros.bench.stream_plan import BOUNDED, StreamPlan
from cacheinf_ros.cli.bench.bench_report import write_report
from cacheinf_ros.engine import EngineConfig, Mode
from cacheinf_ros.engine.decisions import FEWEST_DECISIONS
from cacheinf_ros.errors import SourceError
from cacheinf_ros.graph import load_model
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.sources import open_source

_HEAD = (
    "| model, recording | frames | best dense fp32, ms | bounded, ms | faster | held | loss | loss of skipping |"
    " streaming, of dense | OpenVINO bf16, ms, loss | OpenVINO int8, ms, loss |"
)


def main() -> None:
    """Measure every pair whose result is not stored yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--sources", nargs="+", required=True)
    parser.add_argument("--keep", type=Path, required=True)
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--warm-up", type=int, default=26)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--contenders", nargs="+", type=Contender, default=[Contender.ONNXRUNTIME, Contender.OPENVINO])
    given = parser.parse_args()
    print(_HEAD + "\n" + "|---" * (_HEAD.count("|") - 1) + "|", flush=True)
    for model in given.models:
        for source in given.sources:
            kept = given.keep / f"{Path(model.split(':')[0]).stem}-{Path(source).stem}.json"
            if not kept.exists():
                try:
                    report = _measured(model, source, given)
                except SourceError as error:
                    print(f"| {kept.stem} | {error} |", flush=True)
                    continue
                given.keep.mkdir(parents=True, exist_ok=True)
                write_report(kept, report)
            print(row(Path(source).stem, json.loads(kept.read_text(encoding="utf-8"))), flush=True)


def row(source: str, report: dict[str, Any]) -> str:
    """Format one pair's report as a row of the table."""
    means = {name: figures["mean"] for name, figures in report["latency_ms"].items()}
    consensus = report["consensus"]
    dense = consensus["dense"]
    streaming = [report["ways"][way]["streaming"]["whole"] for way in (BOUNDED, "dense")]
    best = report["best_dense_fp32"]
    cells: Sequence[str] = (
        f"{report['model']}, {source}",
        str(report["frames"]),
        f"{means[best]:.1f} ({best})",
        f"{means[BOUNDED]:.1f}",
        f"{report['speedup_vs_best_dense_fp32']:.2f}",
        f"{report['held']:.0%}",
        _lost(dense, consensus[BOUNDED]) + _verdict(report["loss"]),
        _lost(dense, consensus["frame_skip"]),
        f"{streaming[0]:.3f}, {streaming[1]:.3f}",
        *(_lower_precision(report, each.value) for each in (Contender.OPENVINO_BFLOAT16, Contender.OPENVINO_INT8)),
    )
    return "| " + " | ".join(cells) + " |"


def _lower_precision(report: Mapping[str, Any], contender: str) -> str:
    """Format the time and loss of a dense engine of lower precision, where ``--contenders`` names it."""
    if contender not in report["contender_losses"]:
        return "-"
    lost = _lost(report["consensus"]["dense"], report["consensus"][contender])
    return f"{report['latency_ms'][contender]['mean']:.1f}, {lost}" + _verdict(report["contender_losses"][contender])


def _verdict(loss: Mapping[str, Any]) -> str:
    """Say whether the promise is broken; with few decisions, only say how many there were."""
    if loss["kept"]:
        return ""
    return ", broken" if loss["decisions"] >= FEWEST_DECISIONS else f", of {loss['decisions']:.0f} decisions"


def _lost(dense: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Format how much less often something is right than with dense execution: in all, and where anything moves."""
    parts = ("whole", "where_it_moves")
    return " / ".join("-" if dense[part] is None else f"{dense[part] - other[part]:.3f}" for part in parts)


def _measured(model: str, source: str, given: argparse.Namespace) -> dict[str, Any]:
    """Run the benchmark for one pair.

    Raises:
        SourceError: the recording is shorter than the warm-up.
    """
    name, _, weights = model.partition(":")
    opened = open_source(source)
    config = EngineConfig(threads=given.threads, mode=Mode.BOUNDED)
    plan = StreamPlan(
        own={BOUNDED: OwnSettings(config=config, matching=MatchingConfig())},
        frames=given.frames,
        warm_up=given.warm_up,
        fps=opened.fps,
        contenders=given.contenders,
    )
    loaded = load_model(name, weights=Path(weights) if weights else None)
    return dict(run_stream_benchmark(loaded, recorded(opened), plan).report)


if __name__ == "__main__":
    main()
