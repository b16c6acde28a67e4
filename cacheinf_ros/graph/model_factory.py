# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Build the network that a model reference names, which may run code, and load its weights, which never does."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from pickle import UnpicklingError
from types import ModuleType
from typing import Any
from zipfile import is_zipfile

import torch
from safetensors.torch import load_file

from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph.torchvision_shim import import_torchvision

_BUILDING = threading.RLock()


def build_module(reference: str) -> torch.nn.Module:
    """Build the network that a reference names, untrained unless it loads weights itself.

    One thread at a time: untrained weights come from torch's random number generator, which belongs to the process, and
    must be the same in every process.

    Args:
        reference: ``torchvision:NAME``, ``package.module:factory``, ``path/file.py:factory``.

    Raises:
        ModelError: there is no such factory, it fails, or it returns something else than a module.
    """
    origin, _, name = reference.rpartition(":")
    if not origin:
        raise ModelError(
            f"model {reference!r} is neither a file nor a reference: use torchvision:NAME, package.module:factory, "
            f"file.py:factory, trusted:FILE.pt2, or an .onnx or card .yaml file that exists{_meant_by(reference)}"
        )
    factory = _torchvision_factory(name) if origin == "torchvision" else _python_factory(origin, name)
    try:
        with _BUILDING:
            torch.manual_seed(0)
            module = factory()
    except Exception as error:
        raise ModelError(f"model {reference!r}: its factory failed: {type(error).__name__}: {error}") from error
    if not isinstance(module, torch.nn.Module):
        raise ModelError(f"model {reference!r} returned {type(module).__name__}, not a torch.nn.Module")
    return module.eval()


def load_weights(module: torch.nn.Module, path: Path) -> None:
    """Load safetensors or a state dict (read with ``weights_only``) into a network.

    Raises:
        ModelError: the file is missing, unreadable, or does not fit the network.
    """
    if not path.is_file():
        raise ModelError(f"weights {path} do not exist")
    try:
        is_safe = path.suffix.lower() == ".safetensors"
        state = load_file(path) if is_safe else torch.load(path, weights_only=True)
    except Exception as error:  # torch raises whatever its readers stumble over
        # torch's own text is about reading it all the same
        is_pickled = isinstance(error, UnpicklingError) and is_zipfile(path)
        why = "it holds more than tensors: save model.state_dict()" if is_pickled else _short(error)
        raise ModelError(f"weights {path} cannot be read as safetensors or a state dict: {why}") from None
    state = state.get("state_dict", state) if isinstance(state, dict) else state
    try:
        module.load_state_dict(state)
    except (RuntimeError, TypeError, AttributeError) as error:
        raise ModelError(f"weights {path} do not fit the model: {_short(error)}") from None


def _meant_by(name: str) -> str:
    """Return a question that suggests torchvision's model of this name; empty: it has none."""
    with suppress(ModelError):  # torchvision is not installed
        if name in import_torchvision().models.list_models():
            return f" (did you mean torchvision:{name}?)"
    return ""


def _torchvision_factory(name: str) -> Callable[[], Any]:
    models = import_torchvision().models
    known = models.list_models()
    if name not in known:
        raise ModelError(f"torchvision has no model {name!r}; it has, for example, {', '.join(sorted(known)[:6])}")
    options: dict[str, Any] = {"weights": None}
    if "/" not in name and name in models.list_models(module=models.segmentation):
        options["weights_backbone"] = None
    if name in ("googlenet", "inception_v3"):
        options |= {"init_weights": False, "aux_logits": False}
    return lambda: models.get_model(name, **options)


def _python_factory(origin: str, name: str) -> Callable[[], Any]:
    module = _file_module(Path(origin)) if origin.endswith(".py") else _named_module(origin)
    factory = getattr(module, name, None)
    if not callable(factory):
        raise ModelError(f"model {origin}:{name}: {origin} has no factory {name!r}")
    return factory


def _named_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ModelError(f"model module {name!r} cannot be imported: {error}") from None
    except (ValueError, TypeError) as error:
        raise ModelError(f"model module {name!r} is not a module name: {error}") from None


def _file_module(path: Path) -> ModuleType:
    if not path.is_file():
        raise ModelError(f"model file {path} does not exist")
    name = f"cacheinf_model_{path.stem}_{hashlib.sha1(str(path.resolve()).encode()).hexdigest()[:8]}"
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses and pickling look modules up by name
    try:
        specification.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ModelError(f"model file {path} fails: {type(error).__name__}: {error}") from error
    return module


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) < 300 else text[:300] + " ..."
