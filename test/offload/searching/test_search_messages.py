# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Requests and tables are read as they were written; unreadable ones are refused before they take any resources."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from workloads import MIXED, Chain, surroundings, workload

from cacheinf_ros.errors import MessageError
from cacheinf_ros.offload.planning.plan_table import CACHED, MBIT_S, ScheduleTable
from cacheinf_ros.offload.planning.stored_plans import identity
from cacheinf_ros.offload.planning.workload import RowWork
from cacheinf_ros.offload.protocol.greeting import PROTOCOL, Welcome, read_welcome, written
from cacheinf_ros.offload.searching.search_messages import (
    most_table_bytes,
    question_bytes,
    question_of,
    table_bytes,
    table_of,
)

AROUND = surroundings(MIXED, seed=1, speedup=4.0)
OPERATORS = len(MIXED.names)
PLACES = len(MBIT_S), len(CACHED)
AXES = np.array([*MBIT_S, *CACHED])
SOUND = question_bytes(MIXED, AROUND, 50.0)
HEIGHTS = MIXED.heights[1:]
GROUPED = RowWork(
    **{field.name: getattr(MIXED, field.name) for field in dataclasses.fields(RowWork) if field.name != "groups"},
    groups=np.array([0, 0, 1] + [-1] * (OPERATORS - 3)),
)


def table(seed: int) -> ScheduleTable:
    """Return a table of random rows that can be executed."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, HEIGHTS + 1, (*PLACES, OPERATORS))
    for group in range(MIXED.groups.max() + 1):
        members = np.flatnonzero(MIXED.groups == group)
        rows[..., members] = rng.integers(2, size=(*PLACES, 1)) * HEIGHTS[members]
    return ScheduleTable(mbit_s=MBIT_S, reuse=CACHED, rows=rows)


def packed(rows: np.ndarray, axes: np.ndarray = AXES) -> bytes:
    """Pack a table as a malicious server might."""
    return zlib.compress(axes.astype("<f8").tobytes() + rows.astype("<i4").tobytes())


@given(st.integers(0, 2**32 - 1))
def test_a_table_is_read_as_it_was_written(seed: int) -> None:
    sent = table(seed)
    content = table_bytes(sent)
    read = table_of(content, MIXED)
    assert (read.rows == sent.rows).all() and (read.mbit_s, read.reuse) == (sent.mbit_s, sent.reuse)
    assert len(content) <= most_table_bytes(MIXED)


@given(
    seed=st.integers(0, 100),
    place=st.tuples(st.integers(0, PLACES[0] - 1), st.integers(0, PLACES[1] - 1), st.integers(0, OPERATORS - 1)),
    beyond=st.sampled_from([-(2**31), -1, 1, 2**30]),
)
def test_rows_that_the_model_has_not_are_refused(seed: int, place: tuple[int, int, int], beyond: int) -> None:
    rows = table(seed).rows.copy()
    rows[place] = beyond if beyond < 0 else HEIGHTS[place[-1]] + beyond
    with pytest.raises(MessageError, match="rows that the model has not"):
        table_of(packed(rows), MIXED)


@given(st.integers(0, 2), st.integers(1, 10))
def test_what_tears_a_group_apart_is_refused(operator: int, rows_there: int) -> None:
    rows = np.zeros((*PLACES, OPERATORS), np.int64)
    rows[2, 2, :2] = HEIGHTS[:2]
    assert (table_of(packed(rows), GROUPED).rows == rows).all()
    rows[3, 1, operator] = rows_there
    with pytest.raises(MessageError, match="tears apart"):
        table_of(packed(rows), GROUPED)


@given(cut=st.integers(0, 200), flipped=st.integers(0, 10_000))
def test_a_damaged_table_is_refused(cut: int, flipped: int) -> None:
    content = bytearray(table_bytes(table(0)))
    with pytest.raises(MessageError):
        table_of(bytes(content[: min(cut, len(content) - 1)]), MIXED)
    content[flipped % len(content)] ^= 1 << flipped % 8
    try:
        read = table_of(bytes(content), MIXED)
    except MessageError:
        return
    assert (read.rows == table(0).rows).all(), "zlib's checksum finds what it is to find"


def test_tables_of_other_sizes_and_axes_are_refused() -> None:
    for content in (packed(table(0).rows[:-1]), zlib.compress(bytes(10**7))):
        with pytest.raises(MessageError, match="bytes came unpacked"):
            table_of(content, MIXED)
    for axes in (AXES * 2, AXES * np.nan):
        with pytest.raises(MessageError, match="install the same version"):
            table_of(packed(table(0).rows, axes), MIXED)
    with pytest.raises(MessageError):
        table_of(table_bytes(table(0)), workload(Chain()))


@given(
    seed=st.integers(0, 1000),
    speedup=st.floats(0.01, 100),
    search_s=st.floats(0, 3600),
    delay_ms=st.floats(0, 1000),
    value_bytes=st.sampled_from([1, 2, 4.0]),
)
def test_a_question_is_read_as_it_was_written(
    seed: int, speedup: float, search_s: float, delay_ms: float, value_bytes: float
) -> None:
    """The server's own times are sent as text and back, and the robot's hash of them must equal the server's."""
    own = surroundings(MIXED, seed, speedup)
    welcome = Welcome(protocol=PROTOCOL, instance="0", profile=own.server_ms.tolist())
    stated = np.array(read_welcome(written(welcome)).profile)
    sent = dataclasses.replace(own, server_ms=stated, delay_ms=delay_ms, value_bytes=value_bytes)
    read = question_of(question_bytes(MIXED, sent, search_s), own.server_ms)
    assert read.identity == identity(MIXED, own.server_ms) and read.search_s == search_s
    for field in dataclasses.fields(sent):
        assert np.array_equal(getattr(read.machines, field.name), getattr(sent, field.name))


def test_networks_and_servers_have_identities_of_their_own() -> None:
    found = {identity(MIXED, AROUND.server_ms), identity(MIXED, 2 * AROUND.server_ms)}
    for reach in (0, 1):
        work = workload(Chain(reach))
        found.add(identity(work, surroundings(work, 1, 4.0).server_ms))
    assert len(found) == 4


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, 1e10])
@pytest.mark.parametrize("place", [16, 16 + 8 * 5, len(SOUND) - 8])
def test_a_question_with_numbers_that_cannot_be_is_refused(place: int, value: float) -> None:
    content = SOUND[:place] + np.float64(value).tobytes() + SOUND[place + 8 :]
    with pytest.raises(MessageError, match="that cannot be"):
        question_of(content, AROUND.server_ms)


@pytest.mark.parametrize("change", [lambda sound: sound[:-1], lambda sound: sound + b"0", lambda sound: b""])
def test_a_question_of_another_size_is_refused(change: Callable[[bytes], bytes]) -> None:
    with pytest.raises(MessageError, match="bytes, not the"):
        question_of(change(SOUND), AROUND.server_ms)
