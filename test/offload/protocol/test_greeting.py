# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Where versions differ, each side is told that first, whatever else has changed."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from cacheinf_ros.errors import MessageError
from cacheinf_ros.offload.protocol.greeting import (
    LONGEST_GREETING,
    PROTOCOL,
    Hello,
    Welcome,
    Work,
    read_hello,
    read_welcome,
    written,
)

HELLO = Hello(
    protocol=PROTOCOL, model="m", network="0", work=Work.ROWS, wire_type="float32", compress=False, patience_ms=1.0
)
WELCOME = Welcome(protocol=PROTOCOL, instance="0", profile=[[0.0]])
BOTH = pytest.mark.parametrize(("read", "sound"), [(read_hello, HELLO), (read_welcome, WELCOME)])


@BOTH
def test_what_is_written_is_read(read: Callable[[bytes], object], sound: Hello | Welcome) -> None:
    assert read(written(sound)) == sound


@BOTH
@pytest.mark.parametrize("changes", [{"protocol": PROTOCOL + 1}, {"protocol": PROTOCOL - 1}, {"protocol": None}, {}])
def test_another_version_is_told_before_anything_else(
    read: Callable[[bytes], object], sound: Hello | Welcome, changes: dict[str, int | None]
) -> None:
    content = {**json.loads(written(sound)), "new field": 1, **changes}
    if not changes:
        del content["protocol"]
    with pytest.raises(MessageError, match=rf"speaks protocol {PROTOCOL}, .* install the same version"):
        read(json.dumps(content).encode())


@BOTH
@pytest.mark.parametrize("data", [b"", b"[]", b"1", b"{", b'"text"', b'{"protocol": "x"}', b"\xff", b"[" * 10_000])
def test_nonsense_is_no_greeting(read: Callable[[bytes], object], sound: Hello | Welcome, data: bytes) -> None:
    with pytest.raises(MessageError):
        read(data)


@BOTH
def test_a_field_of_no_version_is_refused(read: Callable[[bytes], object], sound: Hello | Welcome) -> None:
    content = {**json.loads(written(sound)), "more": 1}
    with pytest.raises(MessageError, match="makes no sense"):
        read(json.dumps(content).encode())


@BOTH
def test_a_greeting_is_short(read: Callable[[bytes], object], sound: Hello | Welcome) -> None:
    with pytest.raises(MessageError, match="a greeting of"):
        read(written(sound) + b" " * LONGEST_GREETING)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), "NaN", "Infinity", -1.0, 1e300])
def test_nobody_is_waited_for_without_end(number: float | str) -> None:
    content = json.dumps({**json.loads(written(HELLO)), "patience_ms": number})
    with pytest.raises(MessageError, match="makes no sense"):
        read_hello(content.encode())


@pytest.mark.parametrize("number", [float("nan"), float("inf"), "NaN"])
def test_a_servers_operators_take_finite_times(number: float | str) -> None:
    content = json.dumps({**json.loads(written(WELCOME)), "profile": [[number]]})
    with pytest.raises(MessageError, match="makes no sense"):
        read_welcome(content.encode())


@pytest.mark.parametrize("name", ["1", "_1", "a/b", "a b", "~", "9gateway", "a" * 101, "a\n"])
def test_a_gateway_is_a_part_of_a_topics_name(name: str) -> None:
    content = json.dumps({**json.loads(written(WELCOME)), "server": name})
    with pytest.raises(MessageError, match="makes no sense"):
        read_welcome(content.encode())


@pytest.mark.parametrize("name", ["", "gateway_0f3a", "Z9"])
def test_a_gateways_name_is_taken(name: str) -> None:
    content = json.dumps({**json.loads(written(WELCOME)), "server": name})
    assert read_welcome(content.encode()).server == name
