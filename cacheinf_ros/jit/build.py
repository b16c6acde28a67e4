# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Compile the kernels of a module, and of all modules that it imports, into libraries: ``python -m ... MODULE``.

numba turns each kernel into a C function (:func:`numba.cfunc`), and that into LLVM code. What is left of Python and
numba in this code handles errors, which do not happen: kernels raise nothing. Those functions are linked weakly, so
that the libraries load without Python and numba.
"""

from __future__ import annotations

import fcntl
import importlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
from llvmlite import binding as llvm
from llvmlite import ir

from cacheinf_ros.jit.compiled import numba_type
from cacheinf_ros.jit.library import DATA_AT, LENGTHS_AT
from cacheinf_ros.jit.library_kernel import Arrays, Scalar, Type
from cacheinf_ros.jit.linker import find_linker
from cacheinf_ros.jit.places import find_library, new_library, outdated_libraries

_RUNTIME = ("NRT_", "Py", "numba_")
_ALLOCATING = "alloc"


def main(module: str) -> None:
    """Import a module, and build the libraries that are missing."""
    importlib.import_module(module)
    for loaded in [value for value in sys.modules.values() if isinstance(value, ModuleType)]:
        kernels = dict(_kernels(loaded))
        if kernels:
            _build(Path(str(loaded.__file__)), kernels)


def _kernels(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the name and the dispatcher of each entry point that a module defines: see :func:`.library.kernel`."""
    for name, value in list(vars(module).items()):
        if isinstance(value, numba.core.dispatcher.Dispatcher) and value.py_func.__module__ == module.__name__:
            arguments, _ = getattr(value, "kernel_types", ((), None))
            if arguments:
                yield name, value


def _build(source: Path, kernels: dict[str, Any]) -> None:
    library = new_library(source)
    with (library.parent / "kernels.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be building it
        if find_library(source) is not None:
            return
        _link({name: _object_code(name, dispatcher) for name, dispatcher in kernels.items()}, library)
        for old in outdated_libraries(library):
            old.unlink(missing_ok=True)


def _link(objects: dict[str, bytes], library: Path) -> None:
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        files = [Path(folder) / f"{name}.o" for name in objects]
        for file, code in zip(files, objects.values(), strict=True):
            file.write_bytes(code)
        linked = Path(folder) / library.name
        subprocess.run([find_linker(), "-shared", "-o", str(linked), *map(str, files), "-lm"], check=True)
        linked.replace(library)


def _object_code(name: str, dispatcher: Any) -> bytes:
    """Compile a kernel to machine code with one C function, of this name."""
    function = _c_function(dispatcher)
    module = llvm.parse_assembly(function.inspect_llvm())
    module.get_function(function.native_name).name = name
    for value in [*module.functions, *module.global_variables]:
        if not value.is_declaration and value.name != name:
            value.linkage = "internal"
    machine = _target_machine()
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    for value in module.functions:
        if value.is_declaration and value.name.startswith(_RUNTIME):
            if _ALLOCATING in value.name.lower():
                raise ValueError(f"the kernel {name} allocates memory: give it arrays to write to")
            value.linkage = "external_weak"
    return bytes(machine.emit_object(module))


def _target_machine() -> Any:
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    cpu = llvm.get_host_cpu_name()
    return target.create_target_machine(cpu=cpu, features=features, opt=3, reloc="pic", codemodel="default")


def _c_function(dispatcher: Any) -> Any:
    """Make a C function of a kernel, called with the address of what :meth:`.LibraryKernel.__call__` packs.

    That is 8 bytes for each number or array. The address is given twice, since a number may be read as an integer or as
    a float.
    """
    arguments, returns = dispatcher.kernel_types
    scope = {"kernel": dispatcher, "carray": numba.carray, "pointer": _pointer, **vars(numba.types)}
    numbers, lines = count(), list[str]()
    passed = ", ".join(_received(argument, numbers, lines) for argument in arguments)
    body = [*lines, f"return kernel({passed})"]
    exec("\n    ".join(["def entry(ints, floats):", *body]), scope)
    signature = numba_type(returns)(numba.types.CPointer(numba.types.int64), numba.types.CPointer(numba.types.float64))
    return numba.cfunc(signature)(scope["entry"])


def _received(argument: Type, numbers: Iterator[int], lines: list[str]) -> str:
    """Return an expression for an argument; lines that must come before it are appended."""
    if isinstance(argument, Arrays):
        return f"({', '.join(_received(item, numbers, lines) for item in argument.items)},)"
    i = next(numbers)
    if isinstance(argument, Scalar):
        return f"{'floats' if argument.codes == 'd' else 'ints'}[{i}]"
    lengths = ", ".join(f"lengths{i}[{axis}]" for axis in range(argument.ndim))
    lines += [
        f"object{i} = carray(pointer(ints[{i}]), {LENGTHS_AT + 1}, int64)",
        f"lengths{i} = carray(pointer(object{i}[{LENGTHS_AT}]), {argument.ndim}, int64)",
        f"array{i} = carray(pointer(object{i}[{DATA_AT}]), ({lengths},), {numba_type(argument).dtype})",
    ]
    return f"array{i}"


@numba.extending.intrinsic
def _pointer(context: Any, address: Any) -> Any:
    """Cast an address to a pointer."""

    def generate(_: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return numba.types.voidptr(numba.types.int64), generate


if __name__ == "__main__":
    llvm.initialize_native_asmprinter()
    main(sys.argv[1])
