# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Many starts of one node: imports, which take most of a start, happen once, in a process that forks the others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from cacheinf_ros.harness import NodeCommand
from cacheinf_ros.pipeline.polling import wait_until

DEADLINE_S = 60.0


class ForkedNodes:
    """Starts processes of a node one after another.

    Attributes:
        log: of all of them.
    """

    def __init__(self, command: NodeCommand, log: Path, domain: int) -> None:
        self.log = log
        words = command.line()
        arguments = words[words.index(command.executable) :]
        with log.open("w", encoding="utf-8") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).resolve()), str(command.parameters["model"]), *arguments],
                env={**os.environ, "PYTHONUNBUFFERED": "1", "ROS_DOMAIN_ID": str(domain)},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, text=True,
            )  # fmt: skip

    @property
    def output(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def start(self) -> int:
        """One more, once it is ready; its process id."""
        assert self._process.stdin is not None and self._process.stdout is not None
        before = self.output.count("]: ready")
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        assert wait_until(lambda: self.output.count("]: ready") > before, DEADLINE_S), self.output
        return pid

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(DEADLINE_S)


def _fork_for_each_line(model: str, executable: str) -> None:
    from importlib import import_module

    from cacheinf_ros.graph import load_model

    node = import_module(f"cacheinf_ros.nodes.{executable}")
    load_model(model)  # for what is imported by that only
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who was killed is not waited for
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for _ in sys.stdin:
        pid = os.fork()
        if not pid:
            answers.close()
            os._exit(node.main())
        print(pid, file=answers)


if __name__ == "__main__":
    _fork_for_each_line(sys.argv.pop(1), sys.argv.pop(1))
