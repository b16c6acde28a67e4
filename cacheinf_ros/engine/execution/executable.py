# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What an executor is prepared from."""

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
        kernels: of the operators of all :class:`.steps.Compute` steps, by the operator's output.
        replicas: what another machine has of each tensor; None: there is none.
        segments: which steps that follow one another are executed strip by strip; none where a step holds changes back.
    """

    steps: Sequence[Step]
    kernels: Mapping[str, PreparedKernel]
    tensors: Tensors
    replicas: TensorReplicas | None = None
    segments: Sequence[Segment] = ()
