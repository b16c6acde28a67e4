# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Quantises in a process of its own, which neither holds the interpreter lock nor has to be waited for at exit."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.background_process import command_of, program_environment
from cacheinf_ros.errors import CacheinfError

_LOOK_S = 0.2  # seconds between two checks whether to stop
_ERRORS = "errors.txt"


class QuantisationError(CacheinfError):
    """A model could not be quantised, or nobody waits for it any more."""


def quantised_by(
    program: Path, files: Mapping[str, bytes | NDArray[Any]], result: str, stopping: threading.Event
) -> bytes:
    """Run a program on a folder of files and return the file that it writes; it ends when its standard input does.

    Args:
        files: what the folder holds, by name; an array becomes an npy file.
        result: name of the file that the program leaves there.
        stopping: set when nobody waits for the result any more.

    Raises:
        QuantisationError: the program failed, or was stopped.
    """
    with tempfile.TemporaryDirectory(prefix="cacheinf_int8_") as name:
        folder = Path(name)
        for file, content in files.items():
            if isinstance(content, bytes):
                (folder / file).write_bytes(content)
            else:
                np.save(folder / file, content, allow_pickle=False)
        with (
            (folder / _ERRORS).open("wb") as errors,
            subprocess.Popen(
                command_of(program, name), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors,
                env=program_environment(TMPDIR=name), start_new_session=True,
            ) as process,
        ):  # fmt: skip
            while process.poll() is None:
                if stopping.wait(_LOOK_S):
                    process.kill()
                    break
        if stopping.is_set():
            raise QuantisationError("the model was not quantised: nobody waits for it any more")
        if process.returncode:
            lines = (folder / _ERRORS).read_text(errors="replace").strip().splitlines()
            raise QuantisationError(f"the model cannot be quantised: {lines[-1] if lines else process.returncode}")
        return (folder / result).read_bytes()
