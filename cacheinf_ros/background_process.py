# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Start helper programs of this package beside a node, and end them with it.

Such a program imports this module before anything that takes long, so that it is watched from the start.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from pathlib import Path

from cacheinf_ros.low_priority import LOWEST


def command_of(program: Path, *arguments: str) -> list[str]:
    """Return the command line that starts a program.

    ``-P`` keeps the program's folder off the module path: it holds modules whose names others may have as well.
    """
    return [sys.executable, "-P", str(program), *arguments]


def program_environment(**more: str) -> dict[str, str]:
    """Return environment variables by which a program finds the modules of this process, with ``more`` added."""
    return {**os.environ, **more, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def end_with_parent(pipe: int, folder: Path | None = None) -> None:
    """End this process as soon as its parent has ended, however that ended; a helper program calls this.

    Args:
        pipe: file descriptor of a pipe whose other end the parent holds open, and nobody else.
        folder: the parent's folder, which is removed then; None: nothing is removed.
    """
    threading.Thread(target=_watch, args=(pipe, folder), daemon=True).start()


def given_folder() -> Path:
    """Return the folder that the parent gave this program, and run at the lowest priority from now on.

    This process ends, and the folder is removed, as soon as standard input ends.
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
