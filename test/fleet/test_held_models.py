# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Models stay in a machine's store as long as processes there use them, and a while longer."""

from __future__ import annotations

from cacheinf_ros.fleet.held_models import HeldModels


def test_each_machine_has_its_own() -> None:
    models = HeldModels()
    models.hold("one", "key", "host", "reference", 0.0)
    assert models.find("one", "key", "host", 0.0) == "reference"
    assert models.find("other", "key", "host", 0.0) is None
    assert models.find("one", "other", "host", 0.0) is None


def test_the_last_that_is_held_counts() -> None:
    models = HeldModels()
    models.hold("one", "key", "first", "reference", 0.0)
    models.hold("one", "key", "second", "another", 0.0)
    assert models.find("one", "key", "third", 0.0) == "another"


def test_what_nobody_uses_goes_after_a_while() -> None:
    models = HeldModels()
    models.hold("one", "key", "first", "reference", 0.0)
    assert models.find("one", "key", "second", 1.0) == "reference"
    models.release({"second"}, 1000.0)
    models.release((), 1030.0)
    assert len(models) == 1
    models.release((), 1061.0)
    assert len(models) == 0


def test_a_process_that_comes_in_time_keeps_it() -> None:
    models = HeldModels()
    models.hold("one", "key", "first", "reference", 0.0)
    models.release((), 50.0)
    assert models.find("one", "key", "second", 59.0) == "reference"
    models.release({"second"}, 70.0)
    assert len(models) == 1
