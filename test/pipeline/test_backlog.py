# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The images that a node has before it, by what it counts."""

from __future__ import annotations

from cacheinf_ros.pipeline.backlog import Backlog


def heard(backlog: Backlog, results: int, now_s: float, **others: int) -> int:
    backlog.heard({name: str(count) for name, count in {"results": results, **others}.items()}, now_s)
    return backlog.images


def begun(results: int, images: int) -> Backlog:
    backlog = Backlog()
    heard(backlog, results, 0.0)
    for _ in range(images):
        backlog.published()
    return backlog


def test_whatever_becomes_of_an_image_it_is_not_waited_for_any_more() -> None:
    backlog = begun(7, images=5)
    assert heard(backlog, 7, 1.0) == 5, "what was answered before does not count"
    assert heard(backlog, 8, 2.0) == 4
    assert heard(backlog, 8, 3.0, dropped=1, lost=1) == 2
    assert heard(backlog, 8, 4.0, dropped=1, lost=1, unreadable=1) == 1
    assert heard(backlog, 20, 5.0) == 0, "others publish, too"


def test_images_that_never_reached_the_node_are_not_waited_for_for_ever() -> None:
    backlog = begun(0, images=5)
    assert heard(backlog, 1, 1.0) == 4
    assert heard(backlog, 1, 20.0) == 4, "a frame may take so long"
    assert heard(backlog, 1, 40.0) == 0


def test_a_node_that_is_started_again_counts_from_nothing() -> None:
    backlog = begun(100, images=5)
    assert heard(backlog, 0, 1.0) == 5
    assert heard(backlog, 2, 2.0) == 3
