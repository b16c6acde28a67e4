# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Stored files are read as they were written, or not at all."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cacheinf_ros.disk_cache import KeptFile, cache_folder, replacing


def kept(path: Path) -> KeptFile:
    return KeptFile(path=path, what="cost model", remedy="measuring")


def test_what_was_written_is_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = kept(tmp_path / "new" / "folder" / "file")
    assert file.read(bytes) is None
    for content in (b"", b"some", b"other " * 1000):
        assert file.write(content)
        assert file.read(bytes) == content
    assert file.write_json({"a": [1, None]}) and file.read_json(dict) == {"a": [1, None]}
    assert list(file.path.parent.iterdir()) == [file.path]
    assert not caplog.records


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200), data=st.data())
def test_any_damage_is_a_miss_and_a_warning(
    content: bytes, data: st.DataObject, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = kept(tmp_path / "file")
    file.write(content)
    whole = file.path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1), "at")
    flipped = bytearray(whole)
    flipped[at] ^= data.draw(st.integers(1, 255), "bits")
    for damaged in (bytes(flipped), whole[:at], whole + b"x"):
        file.path.write_bytes(damaged)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert file.read(bytes) is None
            assert file.read(bytes) is None, "it is gone, and not spoken of again"
        (record,) = caplog.records
        assert str(file.path) in record.getMessage() and "measuring anew" in record.getMessage()


def test_content_that_the_parser_refuses_is_a_miss(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = kept(tmp_path / "file")
    file.write_json({"a": 1})
    with caplog.at_level(logging.WARNING):
        assert file.read_json(lambda content: content["b"]) is None
    assert "holds no cost model" in caplog.text


def test_what_cannot_be_read_now_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With no file descriptor left, what had taken minutes to measure was removed."""
    kept = KeptFile(path=tmp_path / "costs", what="costs", remedy="measuring")
    kept.write(b"abc")

    def parse(content: memoryview) -> bytes:
        raise OSError(24, "Too many open files")

    assert kept.read(parse) is None and "cannot be read, measuring anew" in caplog.text
    assert kept.read(bytes) == b"abc"


def test_what_is_replaced_while_it_is_used_stays(tmp_path: Path) -> None:
    file = kept(tmp_path / "file")
    file.write(b"a" * 10_000)
    view = file.read(memoryview)
    assert view is not None
    file.write(b"b" * 10_000)
    assert bytes(view) == b"a" * 10_000


def test_what_cannot_be_written_whole_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    for error in (OSError, KeyboardInterrupt):
        with pytest.raises(error), replacing(path) as unfinished:
            unfinished.write_text("half of the n")
            assert path.read_text() == "old"
            raise error
        assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    with replacing(path) as unfinished:
        unfinished.write_text("new")
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


WRITE_AND_DIE = """
import os, sys
from pathlib import Path
from cacheinf_ros.disk_cache import replacing

with replacing(Path(sys.argv[1])) as unfinished:
    unfinished.write_text("half of the n")
    os._exit(1)
"""


def test_what_killed_writers_left_is_removed_a_day_later(tmp_path: Path) -> None:
    file = kept(tmp_path / "file")
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", WRITE_AND_DIE, str(file.path)]).returncode == 1
    old, recent = tmp_path.iterdir()
    a_day_ago = time.time() - 25 * 3600
    os.utime(old, (a_day_ago, a_day_ago))
    assert file.write(b"content")
    assert set(tmp_path.iterdir()) == {file.path, recent}, "who wrote the recent one may be at it"


WRITE_OFTEN = """
import sys
from pathlib import Path
from cacheinf_ros.disk_cache import KeptFile

for _ in range(100):
    assert KeptFile(path=Path(sys.argv[1]), what="", remedy="").write(sys.argv[2].encode() * 100_000)
"""


def test_of_two_processes_that_write_at_once_one_wins(tmp_path: Path) -> None:
    file = kept(tmp_path / "file")
    writers = [subprocess.Popen([sys.executable, "-c", WRITE_OFTEN, str(file.path), letter]) for letter in "ab"]
    contents = set()
    while any(writer.poll() is None for writer in writers):
        contents.add(file.read(bytes))
    assert [writer.wait() for writer in writers] == [0, 0]
    contents.add(file.read(bytes))
    assert contents <= {None, b"a" * 100_000, b"b" * 100_000} and file.read(bytes) is not None
    assert list(tmp_path.iterdir()) == [file.path]


def test_a_folder_that_cannot_be_written_is_spoken_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "folder").write_text("in the way")
    with caplog.at_level(logging.WARNING):
        for name in ("a", "b"):
            file = kept(tmp_path / "folder" / name)
            assert not file.write(b"content") and file.read(bytes) is None
    (record,) = caplog.records
    assert str(tmp_path / "folder") in record.getMessage()


def test_the_folder_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "cacheinf_ros"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "cacheinf_ros"
