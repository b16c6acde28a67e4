# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Lists the package's files that run for one frame in two processes: ``python scripts/trace_frame.py``.

What runs for every frame of a steady stream counts, in mode exact: not what timers and changes of parameters do. A file
that is only read from, such as an immutable value's fields, is not counted; generated messages are left out.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import cacheinf_ros.cache_map
from cacheinf_ros.config import Value
from cacheinf_ros.harness import NodeCommand, NodeProcess
from cacheinf_ros.harness.domains import private_domain
from cacheinf_ros.harness.start_node import main as start_node

PACKAGE = Path(cacheinf_ros.cache_map.__file__).parent
PARAMETERS: dict[str, dict[str, Value]] = {"matcher": {}, "inference": {"mode": "exact"}}
NODES = tuple(PARAMETERS)
FIRST = "nodes/camera.py:Camera._receive"  # of each frame, in both processes
WARM = 5  # frames until everything is as it stays
SOURCE: dict[str, Value] = {
    "source": "scene:fixed",
    "rate": 2.5,
    "frames": 30,
    "wait_for_subscribers": 2,
    "settle_s": 2.0,
}


def trace(out: Path) -> None:
    """Write the functions that each frame enters, a line for each frame."""
    entered: set[str] = set()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(f"{PACKAGE}/"):
            return
        function = f"{code.co_filename.removeprefix(f'{PACKAGE}/')}:{code.co_qualname}"
        if function == FIRST:
            with out.open("a") as file:
                file.write(json.dumps(sorted(entered)) + "\n")
            entered.clear()
        entered.add(function)

    threading.setprofile(profile)
    sys.setprofile(profile)


def traced(folder: Path) -> dict[str, set[str]]:
    """By node, what every frame enters."""
    processes = []
    with private_domain() as domain:
        try:
            for name in NODES:
                # this file, told where to write, stands in for the interpreter's own options and start_node.py
                prefix = (sys.executable, __file__, str(folder / name))
                command = NodeCommand(executable=name, parameters=PARAMETERS[name])
                processes.append(NodeProcess(command, log=folder / f"{name}.log", domain=domain, prefix=prefix))
            for process in processes:
                process.wait_ready(300.0)  # every call is traced
            replay = NodeCommand(executable="replay", parameters=SOURCE)
            processes.append(NodeProcess(replay, log=folder / "replay.log", domain=domain))
            processes[-1].wait(120.0)
        finally:
            for process in processes:
                process.stop()
    lines = {name: (folder / name).read_text().splitlines()[WARM:] for name in NODES}
    return {name: set.intersection(*(set(json.loads(line)) for line in lines[name])) for name in NODES}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        entered = traced(Path(folder))
    files = {name: {each.partition(":")[0] for each in entered[name]} for name in NODES}
    files = {name: {file for file in files[name] if not file.startswith("msg/")} for name in NODES}
    for name in NODES:
        print(f"{name}: {len(files[name])} files", *sorted(files[name]), sep="\n  ")
    print(f"both: {len(set.union(*files.values()))} files")
    runs = sorted(each for each in set.union(*entered.values()) if each.endswith((".run", ":run")))
    print(f"functions called run: {', '.join(runs)}")


if __name__ == "__main__":
    if "--ros-args" in sys.argv:  # OUT PYTHON -S -P START_NODE NAME --ros-args ...
        _, out, _, _, _, start, name, *arguments = sys.argv
        sys.argv = [start, *arguments]
        trace(Path(out))
        start_node(name)
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
