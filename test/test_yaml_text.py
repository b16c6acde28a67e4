# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""YAML is read as it was written; what would take time or memory beyond its length is refused."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.yaml_text import DEEPEST, LONGEST, parse_yaml, whole_yaml

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
TAGGED = ['!!int ""', '!!float ""', "!!bool x", "!!timestamp x", f"{'1:' * 300}1.5"]
CONTENTS = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(content=CONTENTS, flow=st.booleans())
def test_what_was_written_is_read(content: Any, flow: bool) -> None:
    assert parse_yaml(yaml.safe_dump(content, default_flow_style=flow)) == content
    assert parse_yaml(yaml.safe_dump([content, {"again": content}], default_flow_style=flow))[1]["again"] == content


@given(content=st.dictionaries(st.text(), CONTENTS, min_size=1))
def test_every_cut_of_what_was_written_is_refused(content: dict[str, Any]) -> None:
    text = whole_yaml(content)
    assert parse_yaml(text) == parse_yaml(text[:-1]) == content
    first = text.index("\n")
    for length in range(first, len(text) - 1):
        with pytest.raises(ValueError, match=r"cut off: its last line is not '# end' \(if nothing lacks, remove its"):
            parse_yaml(text[:length])
    assert all(parse_yaml(text[:length]) is None for length in range(first))


def test_what_was_written_may_be_edited() -> None:
    text = whole_yaml({"name": "room", "cost": 1.0})
    edited = {"name": "hall", "cost": 1.0}
    assert parse_yaml(text.replace("room", "hall")) == edited
    assert parse_yaml(f"# mine\n{text.replace('room', 'hall')}\n\n") == edited
    assert parse_yaml(yaml.safe_dump(yaml.safe_load(text) | {"name": "hall"})) == edited
    without_first = text.partition("\n")[2].replace("room", "hall")
    assert parse_yaml(without_first) == parse_yaml(without_first.replace("# end", "")) == edited


@pytest.mark.parametrize("depth", [DEEPEST + 1, 1000, 100_000])
@pytest.mark.parametrize("closed", [True, False])
def test_depth_is_bounded(depth: int, closed: bool) -> None:
    with pytest.raises(ValueError, match=f"line 2: more than {DEEPEST} collections"):
        parse_yaml("\n" + "[" * depth + "]" * depth * closed)
    assert parse_yaml("[" * DEEPEST + "]" * DEEPEST)


def test_aliases_that_multiply_are_refused() -> None:
    laughs = "\n".join(f"l{i + 1}: &l{i + 1} [{', '.join([f'*l{i}'] * 10)}]" for i in range(18))
    with pytest.raises(ValueError, match="line 6: aliases make too much of this text"):
        parse_yaml(f"l0: &l0 lol\n{laughs}")
    text = f"[&long {'x' * 10_000}, {', '.join(['*long'] * 1000)}]"
    with pytest.raises(ValueError, match="line 1: aliases make too much of this text"):
        parse_yaml(text)
    chain = "\n".join(f"l{i + 1}: &l{i + 1} [*l{i}]" for i in range(30))
    with pytest.raises(ValueError, match=f"line {DEEPEST + 1}: more than {DEEPEST} collections"):
        parse_yaml(f"l0: &l0 lol\n{chain}")
    with pytest.raises(ValueError, match="line 1: an alias of nothing that came before"):
        parse_yaml("&a [*a]")


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match=f"more than {LONGEST} characters"):
        parse_yaml(f"[{'a, ' * LONGEST}]")


@pytest.mark.parametrize("text", ["a: [", "d: 2026-13-01", "t: !!python/name:os.system", "a\0b", "- a\nb: c", *TAGGED])
def test_what_cannot_be_read_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_yaml(text)
