# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The options of benchmarks for the device, the precision there, and the dense engines to compare with on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from cacheinf_ros.cli.options import described
from cacheinf_ros.engine import EngineConfig, Precision
from cacheinf_ros.errors import ConfigError

if TYPE_CHECKING:
    from cacheinf_ros.bench import AnyContender

_DEFAULTS = EngineConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedOptions:
    """Options for where and how the cached engine computes, and what it is compared with there."""

    device: Annotated[str, typer.Option(help="Torch device of the cached engine.")] = _DEFAULTS.device
    precision: Annotated[Precision, described(EngineConfig, "precision")] = _DEFAULTS.precision
    contenders: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Dense engines to compare with, separated by commas: dense_eager, dense_channels_last, torch_compile, "
            "onnxruntime, openvino, openvino_f16, openvino_bf16, openvino_int8, onnxruntime_int8, ncnn; with device "
            "cuda torch_cuda, torch_cuda_tf32, torch_cuda_f16, torch_compile_cuda, torch_compile_cuda_f16, "
            "onnxruntime_cuda, tensorrt_cuda_f16; all that are installed by default.",
        ),
    ] = "all"

    def wanted(self) -> tuple[AnyContender, ...] | None:
        """Return the dense engines; None: all that are usual for this benchmark.

        Raises:
            ConfigError: a name is unknown, or an engine does not compute on the device.
        """
        from cacheinf_ros.bench import ALL_CONTENDERS, Contender, contenders_on

        if self.contenders == "all":
            return None
        known = {each.value: each for each in ALL_CONTENDERS}
        wanted = [name.strip() for name in self.contenders.split(",") if name.strip()]
        if unknown := [name for name in wanted if name not in known]:
            raise ConfigError(f"contenders {self.contenders!r}: no {', '.join(unknown)}; known: {', '.join(known)}")
        here = {each.value for each in (*Contender, *contenders_on(self.device))}
        if elsewhere := [name for name in wanted if name not in here]:
            raise ConfigError(f"contenders {', '.join(elsewhere)} need --device cuda, not {self.device}")
        return tuple(known[name] for name in wanted)
