# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Parameter names written by hand are those that the configurations declare and that the changelog lists."""

from __future__ import annotations

import math
import re
from enum import Enum
from pathlib import Path
from typing import Any

from cacheinf_ros.catalog.serving.catalog_node_configs import CatalogBudgetConfig, CatalogConfig, CatalogServerConfig
from cacheinf_ros.config import Config
from cacheinf_ros.energy.power_model import PowerModel
from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.offload import OffloadConfig
from cacheinf_ros.parameter_names import GONE, KNOWN, RENAMED, meant_by, what_became_of
from cacheinf_ros.pipeline import node_configs

ROOT = Path(__file__).parents[1]
PARTS = (
    MatchingConfig, EngineConfig, OffloadConfig, PowerModel, CatalogConfig, CatalogBudgetConfig, CatalogServerConfig,
)  # fmt: skip
OF_NODES = tuple(
    each
    for each in vars(node_configs).values()
    if isinstance(each, type) and issubclass(each, Config) and each is not Config
)
TWICE = ("image_topic", "image_transport", "queue_size", "server.use")
"""Parameters that several nodes have, with different descriptions."""
DECLARED = {each.name: each for config in (*PARTS, *OF_NODES) for each in config.declarations()}


def as_written(default: Any) -> str:
    if isinstance(default, tuple):
        return f"[{', '.join(map(as_written, default))}]"
    plain = default.value if isinstance(default, Enum) else default
    return {"": '""', math.inf: ".inf"}.get(plain, str(plain))


def test_all_names_are_known() -> None:
    assert set(DECLARED) == KNOWN


def test_what_was_renamed_is_there_under_its_new_name_only() -> None:
    assert set(RENAMED.values()) <= KNOWN
    assert not (set(RENAMED) | set(GONE)) & KNOWN


def test_the_changelog_tells_what_has_become_of_each() -> None:
    text = (ROOT / "CHANGELOG.rst").read_text()
    rows = re.findall(r"^   \* - ``([^`]+)``\n     - (.+)$", text, re.MULTILINE)
    assert {old: new.strip("`") for old, new in rows if old in RENAMED} == RENAMED
    assert {old for old, _ in rows} == set(RENAMED) | set(GONE)


def test_docs_list_every_parameter_as_it_is_declared() -> None:
    section = (ROOT / "docs" / "nodes.md").read_text().partition("## Parameters")[2].partition("\n## ")[0]
    listed, _, unlisted = section.partition("### Not listed")
    rows = {
        part: re.findall(r"^\| `(.+?)` \| (.*?) \| (.*?) \| (.+) \|$", part, re.MULTILINE)
        for part in (listed, unlisted)
    }
    assert {name for names in rows.values() for name, *_ in names} == set(DECLARED)
    for part, each in ((part, each) for part, found in rows.items() for each in found if each[0] not in TWICE):
        declared = DECLARED[each[0]]
        written = (as_written(declared.info.default), "yes" if declared.live else "", declared.info.description)
        assert (each[1:], part is listed) == (written, declared.listed), each[0]


def test_what_is_said() -> None:
    assert what_became_of("use_server") == "'use_server' is now 'server.use'"
    assert what_became_of("threshold") == ""
    assert meant_by("treshold", KNOWN) == " (did you mean 'threshold'?)"
    assert meant_by("something", KNOWN) == ""
