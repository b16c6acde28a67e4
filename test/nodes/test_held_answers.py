# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Bounded mode in the nodes holds answers while the picture stays, and every image still has its one result."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from cacheinf_ros.harness import NodeCommand
from cacheinf_ros.msg import FrameFigures
from cacheinf_ros.pipeline.polling import wait_until

PREPARED_S = 120.0


class Film:
    """A camera that publishes one image at a time, and returns its result."""

    def __init__(self, station: Any, camera_image: Callable[..., Any]) -> None:
        self._station, self._camera_image = station, camera_image
        self._stamp_ns = 10**13

    def show(self, seed: int, after_ns: int = 50_000_000) -> Any:
        self._stamp_ns += after_ns
        result = self._station.answer(self._camera_image(self._stamp_ns, seed=seed))
        assert not result.error
        return result


def is_held(film: Film, seed: int) -> bool:
    return bool(film.show(seed).mode == "held")


@pytest.mark.parametrize("in_two_processes", [False, True])
def test_a_still_camera_is_answered_without_computing_and_a_new_picture_at_once(
    *,
    in_two_processes: bool,
    rig: Any,
) -> None:
    executable = "inference" if in_two_processes else "cached_inference"
    started = [rig.nodes.start(rig.command(executable, mode="bounded"))]
    if in_two_processes:
        started.append(rig.nodes.start(NodeCommand(executable="matcher")))
    for node in started:
        node.wait_ready()
    rig.station.wait_for_nodes(rig.image(0), subscribers=len(started))
    figures: list[FrameFigures] = []
    rig.station.node.create_subscription(FrameFigures, f"{executable}/figures", figures.append, 1000)
    film = Film(rig.station, rig.image)
    assert wait_until(lambda: is_held(film, 1), PREPARED_S)  # a dense backend is prepared, a burst is seen
    assert wait_until(lambda: "loss" in rig.station.said(executable), PREPARED_S)
    said = rig.station.said(executable)
    assert said["loss"].endswith("of 0.02 asked") and said["bursts"].endswith("broken in 0")
    assert "ms" in said["dense_backend"] and "ms" in said["cached_engine"]
    changed = film.show(2)
    assert changed.mode != "held" and changed.active_share > 0
    assert wait_until(lambda: bool(figures) and figures[-1].header == changed.header, PREPARED_S)
    last = figures[-1]
    assert last.active_share == changed.active_share and last.held == last.failed == 0 and last.loss_asked > 0
    assert last.total_ms == pytest.approx(sum(changed.stage_ms)) and 0 < last.compute_ms <= last.total_ms
    assert math.isnan(last.link_ms) and not math.isnan(last.loss_measured)
    assert math.isnan(figures[0].energy_j) or figures[0].energy_j > 0, "known after a second"
    assert last.energy_j > 0
    assert any(each.held for each in figures) and all(each.latency_ms > 0 for each in figures)
    assert wait_until(lambda: is_held(film, 2), PREPARED_S)
    assert film.show(2, after_ns=-2 * 10**9).mode != "held", (
        "no answer stands for a frame before it, as where a bag loops"
    )
    assert wait_until(lambda: is_held(film, 2), PREPARED_S)
    for node in reversed(started):
        assert node.stop() == 0
        assert "Traceback" not in node.output
