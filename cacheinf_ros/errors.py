# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The errors of the package: one base class, one subclass per part.

A message says what is wrong, with which value, and what to do about it. Nodes and the command line
catch :class:`CacheinfError` once; any other exception is a bug and keeps its traceback.
"""

from __future__ import annotations

import reprlib

MOST_CHARACTERS = 500
"""The longest text about one failure, in characters: it goes into the results and diagnostics of every frame."""

INSTALL_REMEDY = "activate the virtual environment (source venv/bin/activate), or pip install -r requirements.txt"
"""The remedy where a package of others is missing."""

MESSAGES_REMEDY = "`make build`, or `colcon build` and source its setup file (source install/setup.bash)"
"""The remedy where this package's messages are missing, which are built."""

_MESSAGES = "cacheinf_ros.msg"


class CacheinfError(Exception):
    """Base of every error that the user can do something about."""


class ConfigError(CacheinfError):
    """A parameter or option has an unusable value."""


class CacheMapError(CacheinfError):
    """A cache map contradicts itself or the frame it is applied to."""


class MatchingError(CacheinfError):
    """Frame and reference cannot be compared."""


class ModelError(CacheinfError):
    """A model, its weights or its card cannot be loaded or exported."""


class EngineError(CacheinfError):
    """The engine cannot run this frame."""


class PlanError(CacheinfError):
    """Tensors cannot be placed in memory, or a placement is wrong."""


class SourceError(CacheinfError):
    """A source of frames cannot be opened or read."""


class MessageError(CacheinfError):
    """A received message cannot be turned into a value."""


class LinkError(CacheinfError):
    """Another machine did not send what was expected, or not in a usable form."""


class SearchError(CacheinfError):
    """No schedules are searched for, or none were found."""


class CatalogError(CacheinfError):
    """A catalog cannot be built or read, or none of its variants fits."""


def missing_package(error: ModuleNotFoundError) -> str:
    """Say in one line what to do about a package of others, or messages of ours, that are not there.

    Raises the error if another module of our own is missing.
    """
    name = error.name or ""
    if name == _MESSAGES or name.startswith(f"{_MESSAGES}."):
        return f"no module {name}, as the messages are not built or not sourced: {MESSAGES_REMEDY}"
    if name.partition(".")[0] in ("", "benchmarks", "cacheinf_ros"):
        raise error
    return f"no module {name}: {INSTALL_REMEDY}"


def quoted(value: object, most: int = 80) -> str:
    """Return a value as error messages quote it: beyond ``most`` characters its middle is left out.

    Others may send megabytes where a word is expected, and the text goes into results, diagnostics and the log.
    """
    short = reprlib.Repr()
    short.maxstring = short.maxother = most
    return short.repr(value)


def shortened(text: str, most: int = MOST_CHARACTERS) -> str:
    """Shorten a text to at most ``most`` characters by leaving out its middle: its end often says what to do."""
    if len(text) <= most:
        return text
    mark = f" ... {len(text)} characters ... "
    kept = most - len(mark)
    return text[: kept - kept // 3] + mark + text[len(text) - kept // 3 :]
