# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The cameras of one process: what one's callbacks do delays no other, and is said of it alone."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

PROGRAM = """
import sys, threading
from rclpy.node import Node
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.nodes.frame_node import run_nodes
from cacheinf_ros.pipeline import Health
from cacheinf_ros.pipeline.health import WorkState

left_was_called = threading.Event()

class Camera(Node):
    def __init__(self, side):
        super().__init__("camera", namespace=side)
        self.ended, self.health = threading.Event(), Health()
        self.create_timer(0.05, getattr(self, side))

    def front(self):  # as slow as a transition that loads a model, until another camera's callback was called
        print("left was called meanwhile:", left_was_called.wait(20.0), flush=True)
        self.ended.set()

    def left(self):
        left_was_called.set()
        raise ValueError("a bug")

    def start(self):
        if self.get_namespace() == "/left" and {refuses}:
            raise ConfigError("it cannot be started")

    def give_way(self):
        pass

    def close(self):
        status = self.health.status(WorkState(), latency_budget_ms=1.0, stuck_after_s=1.0, now_s=0.0)
        print(self.get_namespace(), "knows of failures:", int(status.values["errors"]) > 0, flush=True)

sys.exit(run_nodes("cameras", lambda: [Camera("front"), Camera("left")]))
"""

ENDING = """
import sys, threading, time
import rclpy
from rclpy.node import Node
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.nodes.frame_node import run_nodes
from cacheinf_ros.pipeline import Health

class Camera(Node):
    def __init__(self, side):
        super().__init__("camera", namespace=side)
        self.ended, self.health = threading.Event(), Health()
        self.create_timer(0.05, lambda: None)

    def start(self):
        pass

    def give_way(self):
        if self.get_namespace() == "/{side}":
            {ends}

    def close(self):
        if self.get_namespace() == "/left":
            time.sleep(0.5)  # longer than the others
        print(self.get_namespace(), "is closed while ROS works:", rclpy.ok(), flush=True)
        {closes}

sys.exit(run_nodes("cameras", lambda: [Camera("front"), Camera("left"), Camera("rear")]))
"""

NERVOUS_REPLAY = """
import sys
from cacheinf_ros.nodes.frame_node import run_nodes
from cacheinf_ros.nodes.replay import ReplayNode

class Nervous(ReplayNode):
    def __init__(self):
        super().__init__()
        self.create_timer(0.05, self.fail)
        self.has_failed = False

    def fail(self):
        if self.has_failed:
            self.ended.set()
        self.has_failed = True
        raise ValueError("a bug")

sys.exit(run_nodes("replay", lambda: [Nervous()], ["--ros-args", "-p", "wait_for_subscribers:=1"]))
"""


def run(domain: int, *, refuses: bool) -> tuple[int, str]:
    """Return exit code and output of a process with two nodes, of which one may refuse to start."""
    return run_program(domain, PROGRAM.replace("{refuses}", str(refuses)))


def run_program(domain: int, program: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
        env={**os.environ, "ROS_DOMAIN_ID": str(domain)},
    )  # fmt: skip
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def output(domain: int) -> str:
    code, output = run(domain, refuses=False)
    assert code == 0, output
    return output


def test_a_callback_of_one_camera_does_not_keep_another_waiting(output: str) -> None:
    assert "left was called meanwhile: True" in output


def test_a_failure_is_that_of_its_camera(output: str) -> None:
    assert "/front knows of failures: False" in output
    assert "/left knows of failures: True" in output


def test_the_log_names_the_camera(output: str) -> None:
    (line,) = [line for line in output.splitlines() if "a callback: internal error" in line]
    assert "[left.camera]" in line


def test_a_callback_of_replay_that_fails_does_not_end_it(domain: int) -> None:
    """It has no health that diagnostics tell of, and once lacked what takes the failure."""
    code, output = run_program(domain, NERVOUS_REPLAY)
    assert code == 0, output
    assert output.count("a callback: internal error") == 1 and "AttributeError" not in output


def test_the_log_names_the_camera_that_cannot_start(domain: int) -> None:
    code, output = run(domain, refuses=True)
    assert code == 2
    (line,) = [line for line in output.splitlines() if "[FATAL]" in line]
    assert "[left.camera]" in line and "it cannot be started" in line


def ending(domain: int, side: str, *, ends: str, closes: str = "pass") -> tuple[int, str]:
    """Return exit code and output of a process with three nodes, of which one does what ends it."""
    names = {"{side}": side, "{ends}": ends, "{closes}": closes}
    program = ENDING
    for name, code in names.items():
        program = program.replace(name, code)
    return run_program(domain, program)


@pytest.mark.parametrize("side", ["front", "left"])
def test_a_bug_in_a_camera_s_thread_ends_the_process_with_its_traceback(domain: int, side: str) -> None:
    """The exit code was 0 where the thread was not the first, so that nobody started the process again."""
    code, output = ending(domain, side, ends='raise ValueError("a bug")')
    assert code == 1, output
    (line,) = [line for line in output.splitlines() if "[FATAL]" in line]
    assert f"[{side}.camera]" in line and "the node ends by a bug" in line
    assert output.count("Traceback") == output.count("ValueError: a bug") == 1
    assert output.count("is closed while ROS works: True") == 3  # also after a failure of the main thread


def test_each_camera_says_what_closing_it_failed_with(domain: int) -> None:
    closes = 'raise ConfigError("no film of " + self.get_namespace())'
    code, output = ending(domain, "rear", ends="self.ended.set()", closes=closes)
    assert code == 2, output
    lines = [line for line in output.splitlines() if "[FATAL]" in line]
    assert len(lines) == 3 and "Traceback" not in output
    for side in ("front", "left", "rear"):
        assert any(f"[{side}.camera]" in line and line.endswith(f"no film of /{side}") for line in lines)
