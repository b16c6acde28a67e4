# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Programs of this package that a node runs beside itself: how they are started, and how they end with it.

A program imports this before anything that takes long, so that it is watched from the start.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from pathlib import Path

from cacheinf_ros.low_priority import LOWEST


def command_of(program: Path, *arguments: str) -> list[str]:
    """What starts a program. -P: its folder holds modules whose names others may have as well."""
    return [sys.executable, "-P", str(program), *arguments]


def program_environment(**more: str) -> dict[str, str]:
    """Environment variables by which it finds what this process does, and more."""
    return {**os.environ, **more, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def end_with_parent(pipe: int, folder: Path | None = None) -> None:
    """In a program: end this process as soon as its parent has ended, however that ended.

    Args:
        pipe: file descriptor of a pipe whose other end the parent holds open, and nobody else.
        folder: of the parent's, to be removed then.
    """
    threading.Thread(target=_watch, args=(pipe, folder), daemon=True).start()


def given_folder() -> Path:
    """In a program that is given a folder of its parent's: the folder, at the lowest priority from now on.

    Ends this process, and removes the folder, as soon as standard input ends.
    """
    os.nice(LOWEST)
    folder = Path(sys.argv[1])
    end_with_parent(sys.stdin.fileno(), folder)  # sys.stdin itself would be locked when the interpreter ends
    return folder


def _watch(pipe: int, folder: Path | None) -> None:
    os.read(pipe, 1)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)
