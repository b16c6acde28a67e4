# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The page of ``cacheinf bench stream``, and the parts that it shares with the pages of advice and replays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from cacheinf_ros.bench.loss import DENSE, NOTHING_FOUND
from cacheinf_ros.bench.page.page import Bar, Figure, Page, Section
from cacheinf_ros.bench.page.player import player_of
from cacheinf_ros.bench.page.plots import Point, draw_pareto, pareto_front
from cacheinf_ros.bench.page.worst_frames import WorstFrame, worst_frames
from cacheinf_ros.bench.stream_plan import BOUNDED
from cacheinf_ros.bench.stream_run import StreamRun
from cacheinf_ros.bench.trace import FrameTrace
from cacheinf_ros.engine.decisions import FEWEST_DECISIONS
from cacheinf_ros.mode import Mode
from cacheinf_ros.pipeline.frame_result import HELD

_STAGES = {
    "match": "comparing with what is cached",
    "prepare": "preparing the picture",
    "compute": "computing the network",
    "judge": "judging answers, as far as these waited for it",
    "decode": "decoding the outputs",
    "link": "the way to the server and back",
}
_MODES = {
    HELD: "the last answer still stood",
    Mode.DENSE.value: "computed completely",
    Mode.EXACT.value: "computed where something changed",
    Mode.BOUNDED.value: "computed where enough changed",
    Mode.DEEPCACHE.value: "computed where something changed, the rest moved along",
}
EXPLAINED = (
    "Loss: how much less often a way is right than dense execution; right is what dense answers to nine neighbouring "
    "frames agree on. Negative: it is right more often, as it flickers less. Where things move, 2.5 times as much is "
    "within a promise.",
    "Times are those of this machine, of one thread of work after another: matching, preparing the picture, "
    "computing, and decoding the outputs, without what cameras and ROS add.",
)


def stream_page(run: StreamRun, settings: Mapping[str, str]) -> Page:
    """Lay out what bounded mode did on a recording, beside what a user could do instead."""
    report = run.report
    nodes = [_nodes_section(report["nodes"])] if report["nodes"] else []
    return Page(
        title=f"{report['model']} on {settings['source']}",
        subtitle=described(run),
        verdict=_verdict(run),
        sections=[
            *run_sections(run, BOUNDED),
            settings_section(settings),
            ways_section(run, BOUNDED),
            *nodes,
        ],
    )


def described(run: StreamRun) -> str:
    """Describe the model's input size, the frames, their rate, and the number of threads."""
    report = run.report
    return (
        f"{report['frames']} frames at {report['fps']:.4g} Hz after {report['warm_up']} to learn from, "
        f"input {report['size']}, {report['threads']} threads"
    )


def run_sections(run: StreamRun, name: str) -> list[Section]:
    """Show the run of one way: frame by frame, where the time went, and the frames on which it lost most."""
    worst = worst_frames(run, name)
    player = Section(
        title="Frame by frame",
        paragraphs=["Drag along the slider or a chart. Green: taken from the cache.", *_learning(run)],
        player=player_of(run, name, [each.index for each in worst]),
    )
    traces = run.traces.get(name, ())[run.learning :]
    return [player, *([time_section(traces)] if traces else []), _worst_section(worst, name)]


def _learning(run: StreamRun) -> list[str]:
    """Say which of the frames that are shown count in no figure."""
    if not run.learning:
        return []
    return [f"The first {run.learning} frames, from which bounded mode learns, are shown; all below is without them."]


def time_section(traces: Sequence[FrameTrace]) -> Section:
    """Show where the time of one of this package's ways went, and how frames were answered."""
    stages: dict[str, float] = {}
    for trace in traces:
        for stage, took_ms in trace.stage_ms.items():
            stages[stage] = stages.get(stage, 0.0) + took_ms / len(traces)
    whole_ms = sum(stages.values()) or 1.0
    modes = Counter(trace.mode for trace in traces)
    return Section(
        title="Where the time went",
        bars=[
            Bar(name=_STAGES.get(name, name), share=ms / whole_ms, text=f"{ms:.2f} ms") for name, ms in stages.items()
        ],
        heads=("how frames were answered", "frames", "share"),
        rows=[
            (_MODES.get(mode, f"mode {mode}"), str(count), f"{count / len(traces):.0%}")
            for mode, count in modes.most_common()
        ],
    )


def _worst_section(worst: Sequence[WorstFrame], name: str) -> Section:
    if not worst:
        return Section(title="The worst frames", paragraphs=[f"On no frame was {name} right less often than dense."])
    return Section(
        title="The worst frames",
        paragraphs=["Dense execution's answer, and the one that was given. Thin boxes count in part."],
        pairs=[_pair(each, name) for each in worst],
    )


def settings_section(settings: Mapping[str, str]) -> Section:
    """Show the settings that were asked for, and explain the figures."""
    return Section(title="Settings", paragraphs=EXPLAINED, rows=list(settings.items()))


def _pair(worst: WorstFrame, name: str) -> tuple[Figure, Figure]:
    frame = f"frame {worst.index}"
    return (
        Figure(content=worst.dense, text=f"{frame}, dense answer", caption=f"{frame}, dense"),
        Figure(content=worst.ours, text=f"{frame}, {name}", caption=f"{frame}, {name}: loss {worst.loss:z.2f}"),
    )


def _verdict(run: StreamRun) -> list[str]:
    report, loss = run.report, run.report["loss"]
    bounded_ms, dense_ms = run.mean_ms(BOUNDED), run.mean_ms(DENSE)
    is_told = loss["decisions"] >= FEWEST_DECISIONS
    kept = (
        "nothing shows whether its promise is kept"
        if not is_told
        else ("its promise is kept" if loss["kept"] else "its promise is broken")
    )
    share = bounded_ms / dense_ms
    found = [
        f"Bounded mode takes {bounded_ms:.1f} ms per frame, {share:.2f} of the {dense_ms:.1f} ms of the fastest dense "
        f"engine ({report['best_dense_fp32']}), and {kept}."
        if share < 1
        else f"Bounded mode saves nothing here: {bounded_ms:.1f} ms per frame, {dense_ms:.1f} on the fastest dense "
        f"engine ({report['best_dense_fp32']}); {kept}.",
        f"It loses {loss['measured']:z.3f} ({loss['where_it_moves']:z.3f} where things move) of {loss['asked']:g} that "
        f"it may; {report['held']:.0%} of its answers were those to earlier frames.",
    ]
    skipping = run.loss("every 2")
    return [
        *found,
        *([] if is_told else [NOTHING_FOUND]),
        f"Computing every second frame only would take {run.mean_ms('every 2'):.1f} ms and lose {skipping.whole:z.3f} "
        f"({skipping.moving:z.3f} where things move).",
    ]


def ways_section(run: StreamRun, marked: str, note: str = "") -> Section:
    """Show all ways in a table and a plot; ``marked``: the highlighted way, ``note``: a paragraph at the top."""
    names = list(run.losses.decisions)
    rows = []
    for name in names:
        loss, mean_ms = run.loss(name), run.mean_ms(name)
        title = f"dense ({run.report['best_dense_fp32']})" if name == DENSE else name
        figures = (f"{mean_ms:.1f}", f"{run.slowest_ms(name):.1f}", f"{mean_ms / run.mean_ms(DENSE):.2f}")
        rows.append((title, *figures, f"{loss.whole:z.3f}", f"{loss.moving:z.3f}", f"{run.held_share(name):.0%}"))
    points = [
        Point(
            name=name, mean_ms=run.mean_ms(name), loss=run.loss(name).promise, is_ours=name in run.held,
            is_chosen=name == marked,
        )
        for name in names
    ]  # fmt: skip
    return Section(
        title="The ways to answer this camera",
        paragraphs=[note] if note else [],
        heads=("", "ms, mean", "ms, slow frames", "of dense", "loss", "where it moves", "last answer"),
        rows=rows,
        marked=names.index(marked),
        figures=[pareto_figure(points)],
    )


def pareto_figure(points: list[Point]) -> Figure:
    """Draw time against loss, with an explanation."""
    return Figure(
        content=draw_pareto(points, pareto_front(points)),
        text="time per frame against loss of each way",
        caption="Further left is faster, further down is better: the dotted line joins the ways that no other beats in "
        "both. Loss as a promise counts it: the whole, or where things move by 2.5, whichever is more.",
    )


def _nodes_section(nodes: Mapping[str, Any]) -> Section:
    rows = []
    for row in nodes["rows"]:
        latency = row["latency_ms"]
        heard = (f"{latency['p50']:.1f}", f"{latency['p95']:.1f}", f"{row['held']:.0%}") if latency else ("-", "-", "-")
        rows.append((row["way"], f"{row['results']} of {row['published']}", *heard, f"{1e3 * row['processor_s']:.1f}"))
    return Section(
        title="Through the real nodes",
        paragraphs=["From the camera's frame to the result that a subscriber gets."],
        heads=("", "results", "ms, median", "ms, slow frames", "last answer", "processor ms"),
        rows=rows,
    )
