# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Reserved ROS domains that nobody else uses."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from cacheinf_ros.errors import CacheinfError
from cacheinf_ros.harness import domains

TAKE = """
import sys
from cacheinf_ros.harness import domains
with domains.reserved_domain() as domain:
    print(domain, flush=True)
    sys.stdin.read()
"""


@contextmanager
def other_process() -> Iterator[int]:
    """Yield a domain that another process has reserved."""
    with subprocess.Popen(
        [sys.executable, "-c", TAKE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as taker:
        assert taker.stdout is not None
        yield int(taker.stdout.readline())
        taker.kill()


def only(monkeypatch: pytest.MonkeyPatch, *numbers: int) -> None:
    monkeypatch.setattr(domains, "_DOMAINS", numbers)


def test_no_two_are_the_same() -> None:
    with ExitStack() as stack:
        found = [stack.enter_context(domains.reserved_domain()) for _ in range(20)]
    assert len(set(found)) == 20
    assert all(1 <= domain <= 100 for domain in found)


def test_another_process_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with other_process() as theirs:
        only(monkeypatch, theirs)
        with pytest.raises(CacheinfError, match="in use"), domains.reserved_domain():
            pass
    with domains.reserved_domain() as ours:  # the lock has died with the other process
        assert ours == theirs


def test_a_robot_runs_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with domains.reserved_domain() as free:
        only(monkeypatch, free)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as robot:
        robot.bind(("", 7400 + 250 * free + 10))
        with pytest.raises(CacheinfError, match="in use"), domains.reserved_domain():
            pass


@pytest.mark.parametrize("before", [None, "SUBNET"])
def test_a_private_one_does_not_leave_the_machine(monkeypatch: pytest.MonkeyPatch, before: str | None) -> None:
    name = "ROS_AUTOMATIC_DISCOVERY_RANGE"
    monkeypatch.delenv(name, raising=False)
    if before:
        monkeypatch.setenv(name, before)
    with domains.private_domain():
        assert os.environ[name] == "LOCALHOST"
    assert os.environ.get(name) == before


def test_domains_of_whose_ports_something_is_left_come_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("fastdds_port7400", "fastdds_port8149_el", "sem.fastdds_port8650_mutex", "fastdds_0123", "port9000"):
        (tmp_path / name).touch()
    assert domains.domains_with_ports(tmp_path) == {0, 2, 5}
    assert domains.domains_with_ports(tmp_path / "none") == set()
    with domains.reserved_domain() as first, domains.reserved_domain() as second:
        pass
    only(monkeypatch, first, second)
    monkeypatch.setattr(domains, "domains_with_ports", lambda: {first})
    for _ in range(8):
        with domains.reserved_domain() as found:
            assert found == second
    monkeypatch.setattr(domains, "domains_with_ports", lambda: {first, second})
    with domains.reserved_domain() as found:
        assert found in (first, second)
