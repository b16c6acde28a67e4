# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Triton's interpreter without what it does in vain, which takes more than half of its time.

Triton 3.7.1 computes each sum and product of integers once more in 64 bits, for an assertion that is left out unless
``debug`` is set; it patches its language anew for each call within a kernel, although the kernel itself has patched it;
and it builds a table of all types to look up one. What a kernel computes does not change.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

_call, _np_dtype = interpreter.InterpretedFunction.__call__, interpreter._get_np_dtype
_np_dtypes: dict[str, np.dtype[Any]] = {}  # by the name of a type in Triton; there are some dozens


def hasten() -> None:
    """Let the interpreter leave out what it does in vain; calling this again changes nothing."""
    options = interpreter.interpreter_builder.options
    assert not options.debug, "overflow is asserted"
    interpreter.interpreter_builder.options = replace(options, sanitize_overflow=False)
    interpreter.InterpretedFunction.__call__ = _called
    interpreter._get_np_dtype = _looked_up


def _called(self: Any, *args: Any, **kwargs: Any) -> Any:
    if any(tl.core.is_builtin(language.load) for language in _languages(self.fn)):
        return _call(self, *args, **kwargs)
    try:
        return self.rewrite()(*args, **kwargs)
    except Exception as error:
        raise interpreter.InterpreterError(repr(error)) from error


@cache
def _languages(function: FunctionType) -> tuple[ModuleType, ...]:
    """Return the modules that are patched for a function: there, what is patched is no builtin of Triton any more."""
    return tuple(value for value in function.__globals__.values() if value is tl or value is tl.core)


def _looked_up(tt_dtype: Any) -> np.dtype[Any]:
    scalar = tt_dtype.scalar
    if scalar.name not in _np_dtypes:
        _np_dtypes[scalar.name] = _np_dtype(scalar)
    return _np_dtypes[scalar.name]
