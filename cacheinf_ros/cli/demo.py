# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf demo``: runs the real nodes on built-in input, with and without the cache."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from cacheinf_ros.cli.demo_report import Image, Trial, demo_table, draw_boxes, draw_demo
from cacheinf_ros.cli.output_files import checked_folder
from cacheinf_ros.engine.accuracy import Detections, score_sequence
from cacheinf_ros.matching import IDENTICAL, draw_overlay, matching_for
from cacheinf_ros.mode import Mode
from cacheinf_ros.sources import Scene, open_source

if TYPE_CHECKING:  # the help must work where ROS is not installed
    from cacheinf_ros.harness.playback import Played
    from cacheinf_ros.nodes.recorder import Recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    source: str
    mode: Mode


def demo(
    source: Annotated[
        str | None,
        typer.Option("--source", "-s", help="Play this video, bag, folder or scene, not the two built-in scenes."),
    ] = None,
    mode: Annotated[
        Mode | None, typer.Option(help="What the cached run takes from the cache; by default what suits the source.")
    ] = None,
    model: Annotated[str, typer.Option("--model", "-m", help="The model to run.")] = "scenenet",
    frames: Annotated[int, typer.Option(min=2, help="Frames of each run.")] = 80,
    rate: Annotated[float, typer.Option(min=0.1, help="Frames per second; slow enough for the dense run.")] = 10.0,
    threads: Annotated[int, typer.Option(min=1, max=256, help="Threads of the engine.")] = 2,
    out: Annotated[
        Path, typer.Option(help="Folder for the picture and the nodes' logs.", callback=checked_folder)
    ] = Path("out"),
) -> None:
    """Play a fixed and a handheld scene through the real nodes, with the cache and without, and compare.

    Matcher, inference and replay run as separate processes over DDS. Every frame is found again in the results; the
    scenes know what is truly in them, so the accuracy is real. Exit code 1 where an accepted frame got no result, or
    an error.
    """
    plans = [_Plan(source="scene:fixed", mode=Mode.EXACT), _Plan(source="scene:handheld", mode=Mode.DEEPCACHE)]
    if source is not None:
        plans = [_Plan(source=source, mode=Mode.DEEPCACHE)]
    plans = [_Plan(source=plan.source, mode=mode or plan.mode) for plan in plans]
    for plan in plans:
        open_source(plan.source)  # a mistake is reported before anything starts
    trials = _run(plans, model=model, frames=frames, rate=rate, threads=threads, out=out)
    console = Console()
    console.print(demo_table(trials))
    draw_demo(trials, out / "demo.png")
    console.print(f"picture: {out / 'demo.png'}", markup=False)
    lost = sum(trial.unanswered for trial in trials)
    if lost:
        console.print(
            f"[red]{lost} accepted frames got no result[/]; the nodes' logs are in {escape(str(out / 'logs'))}"
        )
    errors = [text for trial in trials for text in trial.errors]
    if errors:
        console.print(f"[red]{len(errors)} results are errors[/]. The first: {escape(errors[0])}")
    if lost or errors:
        raise typer.Exit(1)


def _run(plans: list[_Plan], *, model: str, frames: int, rate: float, threads: int, out: Path) -> list[Trial]:
    from cacheinf_ros.harness import NodeCommand, NodeGroup, ProcessError, private_domain
    from cacheinf_ros.harness.playback import RESULT_TOPIC, lossless, params_file, play
    from cacheinf_ros.nodes.recorder import Recorder

    nodes = {
        "matcher": lossless(),
        "inference": lossless(model=model, threads=threads, result_topic=RESULT_TOPIC, map_timeout_ms=5000.0),
    }
    columns = (TextColumn("{task.description:<34}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        private_domain() as domain,
        Progress(*columns) as progress,
        NodeGroup(out / "logs", domain=domain) as group,
    ):
        starting = progress.add_task("starting the nodes", total=len(nodes))
        processes = [
            group.start(NodeCommand(executable=name, parameters=parameters, params_file=params_file()))
            for name, parameters in nodes.items()
        ]
        with Recorder(domain=domain, result_topic=RESULT_TOPIC) as recorder:
            for process in processes:
                process.wait_ready(120.0)
                progress.advance(starting)
            trials = []
            for plan in plans:
                runs: list[Played] = []
                for mode in (plan.mode, Mode.DENSE):
                    recorder.set_parameters("/matcher", **_matching(mode))
                    recorder.set_parameters("/inference", mode=mode.value)
                    task = progress.add_task(escape(f"{plan.source.partition('?')[0]}, {mode.value}"), total=frames)
                    played = play(
                        group, recorder, source=plan.source, node="inference", subscribers=2, rate=rate,
                        frames=frames, progress=lambda count, task=task: progress.update(task, completed=count),  # type: ignore[misc]
                    )  # fmt: skip
                    progress.update(task, total=played.published)
                    if not played.results:
                        raise ProcessError(f"the nodes answered none of {played.published} frames: see {out / 'logs'}")
                    if not _right(played):
                        raise ProcessError(f"every frame failed; the first: {played.results[0].error}")
                    runs.append(played)
                trials.append(_trial(plan, *runs))
    return trials


def _matching(mode: Mode) -> dict[str, int | float | str]:
    config = matching_for(mode)
    return {
        "matcher": config.matcher.value, "threshold": min(config.threshold, IDENTICAL), "expiry": config.expiry
    }  # fmt: skip


def _trial(plan: _Plan, cached: Played, dense: Played) -> Trial:
    frame, overlay = _pictures(plan.source, cached)
    return Trial(
        name=plan.source.partition("?")[0],
        mode=plan.mode.value,
        published=cached.published + dense.published,
        results=len(cached.results) + len(dense.results),
        dropped=cached.dropped + dense.dropped,
        unanswered=cached.unanswered + dense.unanswered,
        errors=tuple(result.error for run in (cached, dense) for result in run.results if result.error),
        reuse_ratio=float(np.mean([result.reuse_ratio for result in _right(cached)])),
        cached_ms=latency(cached, matching=True),
        dense_ms=latency(dense, matching=False),
        cached_f1=_f1(plan.source, cached),
        dense_f1=_f1(plan.source, dense),
        frame=frame,
        overlay=overlay,
    )


def _right(played: Played) -> list[Recorded]:
    """Return the results that are no errors."""
    return [result for result in played.results if not result.error]


def latency(played: Played, *, matching: bool) -> NDArray[np.float64]:
    """Return what the inference node took for each frame, in ms, and with ``matching`` also what the matcher took.

    Frames that failed are left out.

    Frames whose maps were not heard count with the matcher's mean: without its map a frame is computed completely.
    """
    known = [link.matching_ms for link in played.links.values()] if matching else []
    usual_ms = float(np.mean(known)) if known else 0.0
    took = []
    for result in _right(played):
        link = played.links.get(result.stamp_ns)
        took.append(result.compute_ms + (link.matching_ms if matching and link is not None else usual_ms))
    return np.array(took)


def _index(stamp_ns: int, fps: float) -> int:
    from cacheinf_ros.harness.playback import FIRST_STAMP_NS

    return round((stamp_ns - FIRST_STAMP_NS) / 1e9 * fps)


def _f1(source: str, played: Played) -> float | None:
    """Score the detections against the ground truth of a scene; returns None for other sources."""
    scene = open_source(source)
    if not isinstance(scene, Scene):
        return None
    truths = [Detections.of_truth(scene.truth(_index(result.stamp_ns, scene.fps))) for result in _right(played)]
    found = [Detections.of_boxes(result.boxes) for result in _right(played)]
    return score_sequence(zip(found, truths, strict=True)).f1


def _pictures(source: str, played: Played) -> tuple[Image, Image]:
    """Return a frame from the middle of the run with its detections, and with what was reused of it."""
    from cacheinf_ros.harness.playback import FIRST_STAMP_NS

    results = _right(played)
    chosen = results[len(results) // 2]
    image = next(frame.image for frame in open_source(source) if FIRST_STAMP_NS + frame.stamp_ns == chosen.stamp_ns)
    boxes = [(box.x, box.y, box.width, box.height, f"{box.name} {box.score:.2f}") for box in chosen.boxes]
    link = played.links.get(chosen.stamp_ns)
    return draw_boxes(image, boxes), image if link is None else draw_overlay(image, link.cache_map)
