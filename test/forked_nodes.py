# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Node processes that start quickly: they are forked from a process that has done the imports, most of a start.

Tests of the start itself, from the interpreter on, start nodes as a robot does instead.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from cacheinf_ros.harness import NodeCommand, NodeGroup, NodeProcess
from cacheinf_ros.pipeline.polling import wait_until

DEADLINE_S = 60.0
NODES = ("cached_inference", "catalog_inference", "inference", "matcher", "replay", "server")


class NodeFork:
    """The process from which nodes are forked."""

    def __init__(self, model: str, log: Path) -> None:
        """Start the process.

        Args:
            model: a model to load once there, for the modules that it imports.
            log: the log file of this process; each node has its own.
        """
        self._lock = threading.Lock()
        with log.open("w", encoding="utf-8") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).resolve()), model],
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, text=True,
            )  # fmt: skip

    def fork(self, words: list[str], log: Path, environment: dict[str, str]) -> int:
        """Fork a node with such a command line, and return its process id."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with self._lock:
            print(json.dumps([words, str(log), environment]), file=self._process.stdin, flush=True)
            return int(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(DEADLINE_S)


class Forked:
    """A forked process with the interface of :class:`subprocess.Popen`."""

    def __init__(self, pid: int, exit_code: Path) -> None:
        self.pid = pid
        self._exit_code = exit_code

    def poll(self) -> int | None:
        return int(self._exit_code.read_text()) if self._exit_code.exists() else None

    def wait(self, timeout: float = DEADLINE_S) -> int:
        if not wait_until(lambda: self.poll() is not None, timeout):
            raise subprocess.TimeoutExpired("a forked node", timeout)
        return int(self._exit_code.read_text())

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended, and its keeper will write that down
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkedNode(NodeProcess):
    """A node that was forked instead of started anew."""

    def __init__(self, fork: NodeFork, command: NodeCommand, *, log: Path, domain: int) -> None:
        self.command = command
        self.log = log
        log.touch()
        environment = {**os.environ, "ROS_DOMAIN_ID": str(domain)}
        _, *words = command.line()
        pid = fork.fork(words[words.index(command.executable) - 1 :], log, environment)
        self._process: Any = Forked(pid, _exit_code_of(log))


class ForkedGroup(NodeGroup):
    """A group whose nodes are forked, except those with other environment variables, which imports may read."""

    def __init__(self, fork: NodeFork, folder: Path, *, domain: int) -> None:
        super().__init__(folder, domain=domain)
        self._fork, self._own_domain = fork, domain

    def started(self, command: NodeCommand, log: Path) -> NodeProcess:
        if command.environment or command.executable not in NODES:
            return super().started(command, log)
        return ForkedNode(self._fork, command, log=log, domain=self._own_domain)


def _exit_code_of(log: Path) -> Path:
    return log.with_suffix(".exit_code")


def _fork_for_each_line(model: str) -> None:
    from importlib import import_module

    import torch

    from cacheinf_ros.graph import load_model

    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))  # a node takes them when it starts
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a fork has none of the threads that torch would start, and would wait for them
    for name in ("harness.start_node", *(f"nodes.{node}" for node in NODES)):
        import_module(f"cacheinf_ros.{name}")
    load_model(model)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers are not waited for
    for line in sys.stdin:
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _keep(*json.loads(line), answers, threads)
    os._exit(0)  # unloading torch would take seconds


def _keep(words: list[str], log: str, environment: dict[str, str], answers: Any, threads: int) -> None:
    """Fork a node, print its process id, and write down its exit code when it ends."""
    pid = os.fork()
    if not pid:
        answers.close()
        _become(words, log, environment, threads)
    print(pid, file=answers)
    _, status = os.waitpid(pid, 0)
    unfinished = _exit_code_of(Path(log)).with_suffix(".unfinished")
    unfinished.write_text(str(os.waitstatus_to_exitcode(status)))
    unfinished.rename(_exit_code_of(Path(log)))
    os._exit(0)


def _become(words: list[str], log: str, environment: dict[str, str], threads: int) -> None:
    """Turn this forked process into the node that a new process would be when its imports are done."""
    import torch

    from cacheinf_ros.harness import start_node

    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), output, output)):
        os.dup2(file, number)
    os.environ.clear()
    os.environ.update(environment)
    torch.set_num_threads(threads)
    start, executable, *rest = words
    sys.argv = [start, *rest]
    start_node.main(executable)


if __name__ == "__main__":
    _fork_for_each_line(sys.argv.pop(1))
