# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The input of an executor: the steps of a plan with their kernels and tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cacheinf_ros.engine.execution.steps import Step
from cacheinf_ros.engine.execution.strips import Segment
from cacheinf_ros.engine.execution.tensors import Tensors
from cacheinf_ros.engine.kernels.prepared import PreparedKernel
from cacheinf_ros.engine.partition.replicas import TensorReplicas


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Executable:
    """The steps of a plan, and all that they work with.

    Attributes:
        kernels: by operator's output, the kernels of all :class:`.steps.Compute` steps.
        replicas: what another machine has of each tensor; None: there is no other machine.
        segments: the runs of steps that are executed strip by strip; there are none where a step holds changes back.
    """

    steps: Sequence[Step]
    kernels: Mapping[str, PreparedKernel]
    tensors: Tensors
    replicas: TensorReplicas | None = None
    segments: Sequence[Segment] = ()
