# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Settings and fixtures for all tests."""

from __future__ import annotations

import gc
import os
import shlex
import sys
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from emulation.emulated_library import EmulatedLibrary
from hypothesis import settings
from numpy.typing import NDArray

from cacheinf_ros.engine.kernels import kernel_library
from cacheinf_ros.harness.domains import reserved_domain
from cacheinf_ros.sources.scenes import photographs

if TYPE_CHECKING:
    from cacheinf_ros.catalog.catalog_folder import CatalogFolder
    from cacheinf_ros.catalog.specialists.specialist_folder import SpecialiseFolder

# A slow or busy machine must not fail a test: time belongs in benchmarks. Examples differ from run to run, so fewer of
# them than hypothesis' 100 find as much in time, and all of it ends in twenty minutes.
settings.register_profile("cacheinf", deadline=None, max_examples=60)
settings.load_profile("cacheinf")
# For --hypothesis-profile: where coverage is enforced, chance must not decide.
settings.register_profile("repeatable", deadline=None, derandomize=True)

if _kernels := os.environ.get("CACHEINF_KERNEL_LIBRARY"):  # compiled with sanitizers
    kernel_library._PATH = Path(_kernels)
if _emulator := os.environ.get("CACHEINF_KERNEL_EMULATOR"):  # compiled for another kind of processor
    settings.register_profile("emulated", deadline=None, max_examples=20)  # ten times as slow
    settings.load_profile("emulated")
    kernel_library.load_library = partial(EmulatedLibrary, shlex.split(_emulator))  # type: ignore[assignment]


# Before Triton defines its kernels: where there is no GPU its interpreter runs them.
if os.environ.get("CACHEINF_TEST_DEVICE", "cpu") == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"

_WAITING = ("test/nodes/", "test/cli/test_playing.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the files that mostly wait for nodes among those that compute, so that two workers seldom do the same."""
    files = dict.fromkeys(item.location[0] for item in items)
    place: dict[str, float] = {}
    for waits in (False, True):
        group = [file for file in files if file.startswith(_WAITING) == waits]
        place |= {file: (i + 0.5) / len(group) for i, file in enumerate(group)}
    items.sort(key=lambda item: place[item.location[0]])


def pytest_collection_finish() -> None:
    """Exempt what all test modules have imported from garbage collection, and collect less often.

    These are a million objects that stay. Looking through them again and again took half of the time of tests that
    export networks.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Limit torch to one thread until a test sets another number: there is at least one test worker for each core."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what tests measure out of the user's cache directory."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before


@pytest.fixture(scope="session", autouse=True)
def _photographs_are_read_once() -> Iterator[None]:
    """Keep decoded photographs in memory: hundreds of scenes are made of them, and memory matters less than in use."""

    @cache
    def read(path: Path) -> NDArray[np.uint8]:
        image = from_disk(path)
        image.flags.writeable = False
        return image

    from_disk = photographs._read
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(photographs, "_read", read)
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of clips and trained models for measuring, outside of the project; skip if there is none."""
    default = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("CACHEINF_SHARED_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"needs the clips and trained models in {folder} (or $CACHEINF_SHARED_DATA)")
    return folder


@pytest.fixture(scope="module")
def domain() -> Iterator[int]:
    """Reserve a ROS domain for each module, so that nodes of one module do not hear those of another."""
    with reserved_domain() as domain:
        yield domain


@pytest.fixture(scope="session")
def coloured(tmp_path_factory: pytest.TempPathFactory) -> tuple[CatalogFolder, SpecialiseFolder]:
    """Build a catalog of models that name colours, with specialists; tests must not write to it."""
    from coloured import made_specialise  # here: most tests need no network

    return made_specialise(tmp_path_factory.mktemp("coloured") / "colours")
