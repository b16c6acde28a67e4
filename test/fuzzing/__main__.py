# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``python -m fuzzing TARGET --seconds N``: fuzz one decoder with Atheris, guided by the coverage of this package.

Inputs with new coverage are saved in build/fuzzing/TARGET, beside the seeds; those that crash it, in
build/fuzzing/TARGET-crash-...
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

import atheris

SEEDS = Path(__file__).parent / "seeds"
_GUIDING = (
    "cache_map", "catalog.catalog_folder", "catalog.heads.head_folder", "catalog.specialists.specialist_folder",
    "catalog.stored_files", "config", "engine.bounded.store", "engine.cost.measure", "engine.quantisation.scales",
    "fleet.frame_stream", "graph", "nodes.conversions", "nodes.image_messages", "nodes.packet_messages",
    "nodes.results", "nodes.shape_messages", "offload.protocol", "pipeline.map_chain", "sources",
)  # fmt: skip
"""The modules that decoders consist of; loops that are compiled from Python cannot be instrumented."""
_RSS_MB = 4096  # with torch and the middleware
_MALLOC_MB = 600  # at once: more than the largest picture takes while it is decoded
_HANG_S = 20  # on a busy machine
_LONGEST = 200_000  # bytes
_LONGEST_OF = dict.fromkeys(
    ("card", "catalog", "specialise", "heads"), 2000
)  # PyYAML takes time that grows with the square of their depth
_WITHOUT_STDERR = 2  # rclpy, libpng and libjpeg write a line there for most inputs; Atheris reports crashes elsewhere


def main() -> None:
    """Fuzz the target that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("build/fuzzing"))
    options = parser.parse_args()
    with atheris.instrument_imports(include=["cacheinf_ros"], exclude=_not_guiding()):
        from fuzzing.decoders import all_decoders, space

        decoders = all_decoders()
    if options.target not in decoders:
        parser.error(f"no target {options.target!r}; there are {', '.join(decoders)}")
    decode = decoders[options.target]

    def fuzz(data: bytes) -> None:
        decode(data)

    space()  # takes seconds, once
    corpus = options.out / options.target
    corpus.mkdir(parents=True, exist_ok=True)
    atheris.Setup(
        [
            sys.argv[0], f"-max_total_time={options.seconds}", f"-rss_limit_mb={_RSS_MB}", f"-timeout={_HANG_S}",
            f"-malloc_limit_mb={_MALLOC_MB}", f"-max_len={_LONGEST_OF.get(options.target, _LONGEST)}",
            f"-close_fd_mask={_WITHOUT_STDERR}", "-print_final_stats=1", "-verbosity=0",
            f"-artifact_prefix={options.out}/{options.target}-", str(corpus), str(SEEDS / options.target),
        ],
        fuzz,
    )  # fmt: skip
    atheris.Fuzz()


def _not_guiding() -> list[str]:
    """Return the full names of all other modules of the package, as Atheris wants them."""
    (root,) = importlib.util.find_spec("cacheinf_ros").submodule_search_locations
    sources = (path.relative_to(root).with_suffix("") for path in Path(root).rglob("*.py"))
    names = [".".join(path.parts).removesuffix(".__init__").removesuffix("__init__") for path in sources]
    others = [name for name in names if not any(name == each or name.startswith(f"{each}.") for each in _GUIDING)]
    return [f"cacheinf_ros.{name}".removesuffix(".") for name in others]


if __name__ == "__main__":
    main()
