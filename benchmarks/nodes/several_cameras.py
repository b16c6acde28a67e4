# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Measures several cameras in one process, as the launch file starts them for ``image_topics``: results and times.

python -m benchmarks.nodes.several_cameras CLIP MODEL [--cameras 3] [--rate 5] [--seconds 60] [--json FILE]
"""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

from cacheinf_ros.bench.timing import summary
from cacheinf_ros.cli.bench.bench_report import write_report
from cacheinf_ros.harness import NodeCommand, NodeGroup
from cacheinf_ros.harness.domains import private_domain
from cacheinf_ros.harness.playback import params_file
from cacheinf_ros.nodes.recorder import Recorder
from cacheinf_ros.pipeline.polling import wait_until

_START_S = 180.0
_QUIET_S = 5.0
_WARM_UP = 30  # frames of each camera: bounded mode computes the first 24 densely, and prepares engines


def main() -> None:
    """Run the cameras, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clip")
    parser.add_argument("model")
    parser.add_argument("--cameras", type=int, default=3)
    parser.add_argument("--rate", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--mode", default="bounded")
    parser.add_argument("--out", type=Path, default=Path("out/cameras"))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    report = film(given)
    if given.json:
        write_report(given.json, report)
    print(table(report))


def film(given: argparse.Namespace) -> dict[str, Any]:
    """Play the clip as every camera at once; report what became of the frames after the warm-up, by camera."""
    topics = [f"/camera{number}/image" for number in range(given.cameras)]
    results = [f"/camera{number}/cached_inference/result" for number in range(given.cameras)]
    frames = _WARM_UP + round(given.seconds * given.rate)
    with ExitStack() as stack:
        domain = stack.enter_context(private_domain())
        group = stack.enter_context(NodeGroup(given.out, domain=domain))
        latched = {f"qos_overrides.{topic}.publisher.durability": "transient_local" for topic in results}
        parameters = {"model": given.model, "threads": given.threads, "mode": given.mode, **latched}
        command = NodeCommand(
            executable="cached_inference", parameters=parameters, params_file=params_file(), cameras=topics
        )
        node = group.start(command)
        node.wait_ready(_START_S)
        recorders = [stack.enter_context(Recorder(domain=domain, result_topic=topic)) for topic in results]
        replays = [group.start(_replay(given, topic, frames)) for topic in topics]
        watched = psutil.Process(node.pid)
        wait_until(lambda: all(len(each.results) >= _WARM_UP for each in recorders), _START_S)
        before_s, since_s = _processor_s(watched), time.monotonic()
        wait_until(lambda: all(each.exit_code is not None for each in replays), _START_S + frames / given.rate)
        used = (_processor_s(watched) - before_s) / (time.monotonic() - since_s)
        wait_until(lambda: all(len(each.results) >= frames for each in recorders), _QUIET_S)
        memory_mb = watched.memory_full_info().pss / 1e6
        rows = [_figures(each, frames) for each in recorders]
    setting = {name: getattr(given, name) for name in ("model", "rate", "seconds", "threads", "mode")}
    return {"clip": Path(given.clip).name, **setting, "rows": rows, "cores": used, "memory_mb": memory_mb}


def _replay(given: argparse.Namespace, topic: str, frames: int) -> NodeCommand:
    return NodeCommand(
        executable="replay",
        name=f"replay_{topic.split('/')[1]}",
        parameters={
            "source": given.clip, "rate": given.rate, "frames": frames, "loop": True, "image_topic": topic,
            "wait_for_subscribers": 1, "settle_s": 4.0,
        },
    )  # fmt: skip


def _processor_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _figures(recorder: Recorder, frames: int) -> dict[str, Any]:
    counted = recorder.results[_WARM_UP:]
    return {
        "published": frames,
        "results": len(recorder.results),
        "errors": sum(bool(result.error) for result in counted),
        "held": sum(result.mode == "held" for result in counted) / max(1, len(counted)),
        "latency_ms": summary([(each.arrived_ns - each.stamp_ns) / 1e6 for each in counted]) if counted else None,
    }


def table(report: dict[str, Any]) -> str:
    """Return the table of cameras in Markdown, with the process's use of cores and memory."""
    lines = ["| camera | results | errors | held | p50 ms | p95 ms |", "|---|---|---|---|---|---|"]
    for number, row in enumerate(report["rows"]):
        latency = [f"{row['latency_ms'][q]:.0f}" if row["latency_ms"] else "-" for q in ("p50", "p95")]
        counts = f"{row['results']} of {row['published']} | {row['errors']} | {row['held']:.0%}"
        lines.append(f"| {number} | {counts} | {latency[0]} | {latency[1]} |")
    lines.append(f"\nthe process used {report['cores']:.2f} cores and {report['memory_mb']:.0f} MB (PSS)")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
