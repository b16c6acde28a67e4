# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Keep results that took long in files for the next start: a file is read exactly as written, or counts as missing.

A file begins with a line that names its format and the SHA-256 of what follows. The version and the key of the content
belong in the file's name. Other kinds of files are replaced as a whole, too: see :func:`replacing`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import mmap
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field

Content = TypeVar("Content")
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""What :func:`digest` returns, as files state it of others."""
OptionalSha256 = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]
"""The same, or empty where there is no such file, or nobody has recorded it."""

_FORMAT = "cacheinf_ros file 1"
_HEADER_BYTES = 96  # a multiple of 32: the content stays aligned in memory
_UNFINISHED = ".unfinished"
_ABANDONED_S = 24 * 3600.0  # no writer takes this long
_log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Return ``$XDG_CACHE_HOME/cacheinf_ros``, by default ``~/.cache/cacheinf_ros``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cacheinf_ros"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file beside ``path``, which takes the place of ``path`` at the end.

    Whoever reads at the same time finds the old file or the new one. Where writing fails, the old file stays and
    nothing is left beside it; what a killed writer has left, the first writer a day later removes.

    Raises:
        OSError: the file cannot be replaced.
    """
    _remove_abandoned(path.parent)
    unfinished = path.with_name(f".{os.urandom(8).hex()}{_UNFINISHED}")
    try:
        yield unfinished
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal; raises :class:`OSError` where it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFile:
    """A file that spares work at the next start.

    Attributes:
        path: where the file is, or would be; its name must cover everything that its content depends on.
        what: what the content is, for messages, such as "cost model".
        remedy: what is done where the file is missing, such as "measuring".
    """

    path: Path
    what: str
    remedy: str

    def read(self, parse: Callable[[memoryview], Content]) -> Content | None:
        """Return the parsed content; None where there is no file.

        A damaged file, or one whose content the parser refuses, is removed with a warning, and the result is None. A
        file that cannot be read gives the same, but stays. The parser may keep the memory that it is given, which never
        changes.
        """
        try:
            return parse(_verified(self.path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:  # such as too many open files: what is kept may be as good as ever
            _log.warning("%s cannot be read, %s anew: %s", self.path, self.remedy, error)
            return None
        except Exception as error:  # archives, JSON and tensors have errors of their own: none may end the start
            _log.warning("%s holds no %s that can be used, %s anew: %s", self.path, self.what, self.remedy, error)
            with suppress(OSError):
                self.path.unlink()
            return None

    def read_json(self, parse: Callable[[Any], Content]) -> Content | None:
        """Decode the content as JSON and parse it, as :meth:`read` does."""
        return self.read(lambda content: parse(json.loads(bytes(content))))

    def write(self, content: bytes) -> bool:
        """Write the file and make its folder; returns False, with one warning per folder, where that fails.

        Whoever reads at the same time finds the old file or the new one; damage by a power cut is noticed on reading.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self.path) as unfinished, unfinished.open("xb") as file:
                file.write(_header(content))
                file.write(content)
        except OSError as error:
            _say_unwritable(
                self.path.parent, f"{self.what} cannot be kept for the next start: {error.strerror or error}"
            )
            return False
        return True

    def write_json(self, content: Any) -> bool:
        """Write a value as JSON, as :meth:`write` does."""
        return self.write(json.dumps(content).encode())


def _header(content: bytes | memoryview) -> bytes:
    line = f"{_FORMAT} {hashlib.sha256(content).hexdigest()}"
    return line.ljust(_HEADER_BYTES - 1).encode() + b"\n"


def _verified(path: Path) -> memoryview:
    """Map the file into memory and return its content; raises ValueError where that is not what was written."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size < _HEADER_BYTES:
            raise ValueError("the file was cut off")
        # copy on write: torch requires writable memory
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    header, content = mapped[:_HEADER_BYTES], mapped[_HEADER_BYTES:]
    if header != _header(content):
        raise ValueError("the file is damaged, or of another version")
    return content


@cache  # once per process: a folder may hold thousands of files, and be written as often
def _remove_abandoned(folder: Path) -> None:
    newest = time.time() - _ABANDONED_S
    for path in folder.glob(f".*{_UNFINISHED}"):
        with suppress(OSError):  # another process may be removing it
            if path.stat().st_mtime < newest:
                path.unlink()


@cache
def _say_unwritable(folder: Path, problem: str) -> None:
    _log.warning("%s: %s", folder, problem)
