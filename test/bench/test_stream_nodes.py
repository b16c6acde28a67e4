# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A stream through a real node: every answer is judged as it arrives, and its cost is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from networks.shared_models import small_scenenet

from cacheinf_ros.bench.judge import Judge
from cacheinf_ros.bench.node_answers import NodeAnswer, NodeRun, Reading, used_per_frame
from cacheinf_ros.bench.shots import recorded
from cacheinf_ros.bench.stream_nodes import NodeWay, StreamNodes
from cacheinf_ros.bench.truth_score import TruthClasses
from cacheinf_ros.engine import Engine, EngineConfig, Mode
from cacheinf_ros.engine.decisions import consensus_of_all, task_of_model
from cacheinf_ros.sources import open_source

SOURCE = "scene:fixed?size=96x128&frames=16&seed=2&objects=2"
WARM_UP = 4


def test_what_a_frame_costs_lies_between_two_readings() -> None:
    readings = [Reading(at_ns=at * 10**6, processor_s=at / 100, joules=None) for at in (0, 100, 200)]
    answers = [NodeAnswer(frame=i, stamp_ns=i, at_ns=0, decision=None, held=False, compute_ms=20.0) for i in range(2)]
    run = NodeRun(published=4, camera_ns={}, answers=answers, readings=readings)
    # 50 to 150 ms for 4 frames of 25 ms: 5 W at rest, 10 W more for the 10 ms that are computed
    used = used_per_frame(run, 50.0, 150.0, 4, answers)
    assert used == {"processor_s": 0.25, "joules": pytest.approx(0.225), "energy": "modelled"}
    metered = [Reading(at_ns=each.at_ns, processor_s=0.0, joules=each.at_ns / 1e8) for each in readings]
    used = used_per_frame(
        NodeRun(published=4, camera_ns={}, answers=answers, readings=metered), 50.0, 150.0, 4, answers
    )
    assert used == {"processor_s": 0.0, "joules": 0.25, "energy": "measured"}


def test_answers_of_a_node_are_those_of_its_frames(tmp_path: Path) -> None:
    model = small_scenenet()
    shots = list(recorded(open_source(SOURCE)))
    engine = Engine(model, EngineConfig(mode=Mode.DENSE, threads=1))
    outputs = [{name: value.copy() for name, value in engine.run(shot.image, None).outputs.items()} for shot in shots]
    task = task_of_model(model.card, outputs[0], [1.0] * len(outputs[0]))
    dense = [task.read(each, (96, 128)) for each in outputs[WARM_UP:]]
    judge = Judge(
        task=task,
        agreed=consensus_of_all(task, dense),
        objects=[shot.objects for shot in shots[WARM_UP:]],
        classes=TruthClasses(model.card.labels),
    )
    nodes = StreamNodes(
        source=SOURCE,
        fps=10.0,
        warm_up=WARM_UP,
        parameters={"model": "scenenet", "input_size": "96x128", "threads": 1},
        folder=tmp_path,
        ways=(NodeWay(name="every 2", mode=Mode.DENSE, every=2),),
    )
    report = nodes(judge, shots, 5.0)
    (row,) = report["rows"]
    assert (report["rate"], row["way"], row["published"]) == (10.0, "every 2", 8)
    assert 1 <= row["results"] <= 8 and row["held"] == 0.0
    assert row["latency_ms"]["p50"] > 0 and row["processor_s"] > 0 and row["joules"] > 0
    # the answers that arrived are those of dense execution for every other frame
    skipped = [dense[index // 2 * 2] for index in range(len(dense))]
    if row["results"] == 8:
        assert row["consensus"] == pytest.approx(judge.consensus(skipped))
    assert row["frames_behind"] >= 1.4  # no answer comes before its frame: two behind, then one
    assert set(row["truth"]) == {"objects", "recall", "iou", "precision", "f1"} == set(row["truth_streaming"])
    assert 0 <= row["streaming"]["whole"] <= 1 and row["missed_frames"] is not None
