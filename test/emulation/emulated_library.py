# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A library for another kind of processor that is called like one for this machine."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cacheinf_ros.engine.kernels import abi, kernel_library

_CALL = struct.Struct("32s10Q")
_MESSAGE = struct.Struct("3Q")
_WANTED, _WRITTEN, _RETURNED = range(3)
_PAGE = 4096
_ENTRY = struct.Struct("Qq")  # an entry of ``ci_layout``
_MARGIN = 1 << 33  # bytes by which a process may still grow
_ATTEMPTS = 20


class EmulatedLibrary:
    """The functions of a library that runs in an emulator, with this process's memory: see ``serve_calls.cpp``.

    It stands in for a ``ctypes.CDLL`` whose functions are declared.
    """

    def __init__(self, command: Sequence[str | Path], library: Path) -> None:
        """Start the emulator by ``command``, which runs ``serve_calls`` there."""
        self._name = str(library)
        self._memory = os.open("/proc/self/mem", os.O_RDWR)
        self._is_busy = False
        self._postponed: list[tuple[str, tuple[object, ...]]] = []
        self._start([*command, library])
        for name, (result, _) in abi._FUNCTIONS.items():
            setattr(self, name, EmulatedFunction(self, name, result))
        abi.check(self, dict(self._layout()))  # type: ignore[arg-type]

    def close(self) -> None:
        """End the emulator."""
        self._process.kill()
        self._process.communicate()
        os.close(self._memory)

    def call(self, name: str, arguments: tuple[object, ...]) -> int:
        """Call a function, and return the whole register that it returns."""
        self._is_busy = True
        numbers = [_number(argument) for argument in arguments]
        self._send(_CALL.pack(name.encode(), *numbers, *[0] * (10 - len(numbers))))
        while True:
            kind, value, size = _MESSAGE.unpack(self._receive(_MESSAGE.size))
            if kind == _RETURNED:
                break
            if kind == _WRITTEN:
                os.pwrite(self._memory, self._receive(size), value)
            else:
                self._send(os.pread(self._memory, _PAGE, value))
        self._is_busy = False
        return int(value)

    def call_some_time(self, name: str, arguments: tuple[object, ...]) -> None:
        """Call a function without a result: now, or after the call that the garbage collector interrupted."""
        self._postponed.append((name, arguments))
        while self._postponed and not self._is_busy:
            self.call(*self._postponed.pop(0))

    def string_at(self, address: int) -> bytes:
        """Return a string from the library's own memory."""
        return self._bytes_at(address, self.call("strlen", (address,)))

    def _bytes_at(self, address: int, size: int) -> bytes:
        room = ctypes.create_string_buffer(max(1, size))
        self.call("memcpy", (room, address, size))
        return room.raw[:size]

    def _start(self, command: Sequence[str | Path]) -> None:
        """Start the emulator until its memory lies, by chance, where this process has none.

        Raises RuntimeError if it never does.
        """
        for _ in range(_ATTEMPTS):
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.call("getpid", ())  # everything is loaded then
            ours, others = _mapped("self"), _mapped(str(self._process.pid))
            if not any(
                first < end + _MARGIN and other < last + _MARGIN for first, last in ours for other, end in others
            ):
                return
            self._process.kill()
            self._process.wait()
        raise RuntimeError("no place for the emulator beside this process: are addresses not random here?")

    def _layout(self) -> Iterator[tuple[str, int]]:
        address = self.call("ci_layout", ())
        while True:
            name, value = _ENTRY.unpack(self._bytes_at(address, _ENTRY.size))
            if not name:
                return
            yield self.string_at(name).decode(), value
            address += _ENTRY.size

    def _send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def _receive(self, size: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(size)
        if len(data) != size:
            raise RuntimeError(f"the emulator of {self._name} has ended: {self._process.wait()}")
        return data


class EmulatedFunction:
    """One function of the library, with the interface of ``ctypes`` functions."""

    def __init__(self, library: EmulatedLibrary, name: str, restype: Any) -> None:
        self.restype = restype
        self._library = library
        self._name = name

    def __call__(self, *arguments: object) -> Any:
        if self.restype is None:
            return self._library.call_some_time(self._name, arguments)
        register = self._library.call(self._name, arguments)
        if self.restype is ctypes.c_char_p:
            return self._library.string_at(register)
        return self.restype(register).value


def library_beside() -> ctypes.CDLL:
    """Load the library that is compiled for this machine."""
    library = ctypes.CDLL(str(Path(kernel_library.__file__).parent / "libcacheinf_kernels.so"))
    abi.declare(library)
    return library


def _number(argument: Any) -> int:
    """Return what a register holds for an argument: a whole number, an address, or 0 for None."""
    if argument is None:
        return 0
    if isinstance(argument, int):
        return argument & (1 << 64) - 1
    if isinstance(argument, bytes):
        return ctypes.cast(argument, ctypes.c_void_p).value or 0
    return ctypes.addressof(getattr(argument, "_obj", argument))  # of ctypes.byref, or the structure itself


def _mapped(process: str) -> list[tuple[int, int]]:
    """Return the mapped ranges of addresses, without those that the system maps into every process."""
    ranges = []
    for line in Path(f"/proc/{process}/maps").read_text().splitlines():
        if not line.endswith(("[stack]", "[vdso]", "[vvar]", "[vsyscall]")):
            first, last = line.split(maxsplit=1)[0].split("-")
            ranges.append((int(first, 16), int(last, 16)))
    return ranges
