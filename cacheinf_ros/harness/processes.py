# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Starts the nodes as processes, where there is no ``ros2 launch``: for the demo, the command line and the tests.

This module does not import rclpy, and starting a node takes no ROS installation beyond what the node itself needs.
"""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Self

from cacheinf_ros.errors import CacheinfError

if TYPE_CHECKING:
    from cacheinf_ros.config import Value

_READY = "ready"
_CANNOT_START = 2
"""The exit code of a node that cannot start and has said why in one line."""
_FATAL = re.compile(r"^\[FATAL\] \[[\d.]+\] .*?: (.+)$", re.MULTILINE)
_START = Path(__file__).with_name("start_node.py")


class ProcessError(CacheinfError):
    """A node process did not start, or did not end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCommand:
    """The command that starts a node.

    Attributes:
        executable: matcher, inference, cached_inference, catalog_inference, server, side_by_side or replay; or
            a module whose ``main`` runs another node.
        name: name of the node, by which parameter files address it; empty: the executable's own.
        namespace: namespace of the node.
        parameters: override what is in ``params_file``.
        params_file: YAML file of parameters.
        remappings: topic names, from -> to.
        log_level: debug, info, warn or error.
        environment: environment variables that differ from this process' own.
        cameras: full names of image topics, for each of which cached_inference makes a node.
    """

    executable: str
    name: str = ""
    namespace: str = ""
    parameters: Mapping[str, Value] = field(default_factory=dict)
    params_file: Path | None = None
    remappings: Mapping[str, str] = field(default_factory=dict)
    log_level: str = "info"
    environment: Mapping[str, str] = field(default_factory=dict)
    cameras: Sequence[str] = ()

    def line(self) -> list[str]:
        """Return the words of the command line."""
        words = [sys.executable, "-S", "-P", str(_START), self.executable]
        words += ["--cameras", *self.cameras] if self.cameras else []
        words += ["--ros-args", "--log-level", self.log_level]
        words += ["-r", f"__node:={self.name}"] if self.name else []
        words += ["-r", f"__ns:={self.namespace}"] if self.namespace else []
        words += ["--params-file", str(self.params_file)] if self.params_file else []
        for name, value in self.parameters.items():
            words += ["-p", f"{name}:={_yaml(value)}"]
        for old, new in self.remappings.items():
            words += ["-r", f"{old}:={new}"]
        return words


class NodeProcess:
    """One node in a process of its own, with its output in a file."""

    def __init__(
        self, command: NodeCommand, *, log: Path, domain: int | None = None, prefix: Sequence[str] = ()
    ) -> None:
        """Start the process.

        Args:
            domain: ROS_DOMAIN_ID, where it is not the caller's own.
            prefix: words to put before the command line, such as ``ip netns exec NAME``.
        """
        self.command = command
        self.log = log
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", **command.environment}
        if domain is not None:
            environment["ROS_DOMAIN_ID"] = str(domain)
        with log.open("w", encoding="utf-8") as output:
            # a session of its own: Ctrl-C in the terminal reaches this process only, which ends the nodes in order
            self._process = subprocess.Popen(
                [*prefix, *command.line()], stdout=output, stderr=subprocess.STDOUT, env=environment,
                start_new_session=True,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        """The process ID."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the process runs."""
        return self._process.poll()

    @property
    def output(self) -> str:
        """What the process has logged so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_ready(self, timeout_s: float = 60.0) -> None:
        """Wait until the node takes frames; raises :class:`ProcessError` with its output where it does not."""
        from cacheinf_ros.pipeline import wait_until  # here: what it loads may be missing where a node is to say so

        wait_until(lambda: self.is_ready or self.exit_code is not None, timeout_s)
        if not self.is_ready:
            code = self.exit_code
            reasons = _FATAL.findall(self.output)
            if code == _CANNOT_START and reasons:
                raise ProcessError(f"{self.command.executable}: {reasons[-1]}")
            happened = f"did not start within {timeout_s:g} s" if code is None else f"ended with exit code {code}"
            raise ProcessError(f"{self.command.executable} {happened}: {self.output.strip()}")

    def wait(self, timeout_s: float) -> int:
        """Wait until the process ends by itself; returns the exit code, raises :class:`ProcessError` at a timeout."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise ProcessError(f"{self.command.executable} did not end within {timeout_s:g} s") from None

    def interrupt(self) -> None:
        """Ask the process to end, as Ctrl-C would; does nothing where it has ended."""
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        self._process.kill()
        self._process.wait()

    def stop(self, timeout_s: float = 10.0) -> int:
        """Interrupt the process, and kill it where that does not help; returns the exit code."""
        self.interrupt()
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    @property
    def is_ready(self) -> bool:
        """Whether the node has said that it takes frames."""
        return any(line.endswith(f": {_READY}") for line in self.output.splitlines())


class NodeGroup:
    """Node processes that are stopped together; use as a context manager."""

    def __init__(self, folder: Path, *, domain: int | None = None, prefix: Sequence[str] = ()) -> None:
        """Begin without processes.

        Args:
            folder: receives one log file per process.
            domain, prefix: see :class:`NodeProcess`.
        """
        self._folder = folder
        self._domain = domain
        self._prefix = prefix
        self.processes: list[NodeProcess] = []

    def start(self, command: NodeCommand) -> NodeProcess:
        """Start a node, without waiting until it is ready; raises :class:`ProcessError` where it cannot log."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ProcessError(
                f"{self._folder} cannot be made for logs: {error.strerror}; give another place"
            ) from None
        log = self._folder / f"{len(self.processes)}_{command.name or command.executable}.log"
        with _signals_deferred():  # or the process might run on without being in the list
            process = self.started(command, log)
            self.processes.append(process)
        return process

    def started(self, command: NodeCommand, log: Path) -> NodeProcess:
        """Return a new process of this group that logs to ``log``; override it to start nodes in another way."""
        return NodeProcess(command, log=log, domain=self._domain, prefix=self._prefix)

    def stop(self) -> None:
        """Stop all processes at the same time, because unloading a framework takes seconds."""
        for process in self.processes:
            process.interrupt()
        for process in self.processes:
            process.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Defer signals that would end this process until the context is left; only the main thread sees signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    handlers = {
        number: signal.signal(number, lambda *seen: came.append(seen)) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for seen, _ in came:
            signal.raise_signal(seen)


def _yaml(value: Value) -> str:
    """Return a parameter value as YAML that keeps its type: 20.0 stays a float, "1" a string."""
    return ".inf" if value == math.inf else json.dumps(value)
