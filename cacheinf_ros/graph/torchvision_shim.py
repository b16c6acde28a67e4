# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Import torchvision beside a CPU build of torch: its compiled operators do not load there, and no model needs them."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import torch

from cacheinf_ros.errors import ModelError

_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
# A library's definitions live as long as the object does; torch keeps one registry per process.
_definitions: list[torch.library.Library] = []


def import_torchvision() -> ModuleType:
    """Import torchvision, with the schemas of ``nms`` and ``qnms`` declared where its compiled part does not load.

    Raises:
        ModelError: torchvision is not installed.
    """
    if not _definitions and not hasattr(torch.ops.torchvision, "nms") and not _load_operators():
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}{_SCHEMA}")
        _definitions.append(library)
    try:
        return importlib.import_module("torchvision")
    except ImportError:
        raise ModelError("torchvision is not installed: pip install torchvision, or use module:factory") from None


def _load_operators() -> bool:
    """Load torchvision's compiled part, if it can be, before torchvision itself does.

    Declaring what somebody has declared already would end the process.

    Returns:
        Whether it was loaded.
    """
    spec = find_spec("torchvision")
    if spec is None or spec.origin is None:
        return False
    libraries = list(Path(spec.origin).parent.glob("_C*.so"))
    try:
        for library in libraries:
            torch.ops.load_library(library)
    except OSError:
        return False
    return bool(libraries)
