# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Files and folders that a command writes: refused before anything is measured where they cannot be written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cacheinf_ros.errors import ConfigError

_REMEDY = "give another place, or make this one writable"


def checked_file(path: Path | None) -> Path | None:
    """Return an option's value where a file can be written there, or made with its folders.

    Raises:
        ConfigError: it cannot; nothing has been made.
    """
    if path is None:
        return None
    if os.path.isdir(path):
        raise ConfigError(f"{path} cannot be written: it is a folder; give a file")
    if os.path.exists(path) and not os.access(path, os.W_OK):
        raise ConfigError(f"{path} cannot be written: no permission; {_REMEDY}")
    _check_folder(path.absolute().parent, path)
    return path


def checked_picture(path: Path | None) -> Path | None:
    """Return an option's value where a diagram can be written there: its suffix says in which format.

    Raises:
        ConfigError: it cannot; nothing has been made.
    """
    if path is None:
        return None
    from matplotlib.backend_bases import FigureCanvasBase

    if path.suffix[1:].lower() not in FigureCanvasBase.get_supported_filetypes():
        raise ConfigError(f"{path} cannot be drawn: give a file that ends with .png, .svg or .pdf")
    return checked_file(path)


def checked_folder(path: Path) -> Path:
    """Return an option's value where files can be written to this folder, or it can be made.

    Raises:
        ConfigError: they cannot; nothing has been made.
    """
    _check_folder(path.absolute(), path)
    return path


def _check_folder(folder: Path, asked: Path) -> None:
    # os.path, as pathlib raises where a folder above may not be entered
    there = next(each for each in (folder, *folder.parents) if os.path.exists(each))
    if not os.path.isdir(there):
        raise ConfigError(f"{asked} cannot be written: {there} is no folder; {_REMEDY}")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(f"{asked} cannot be written: no permission to write to {there}; {_REMEDY}")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Make the folder of a file, which is then written in this context.

    Raises:
        ConfigError: the folder cannot be made, or the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}; {_REMEDY}") from None
