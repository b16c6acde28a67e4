# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The cascade of a specialist, which answers where it is confident, and the generic model (MCDNN, section 5.2.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cacheinf_ros.catalog.linear import Floats
from cacheinf_ros.catalog.specialists.specialiser import Answered
from cacheinf_ros.catalog.specialists.specialist import Specialist
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import Model


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Verdict:
    """The answer to one frame.

    Attributes:
        class_id: the answer, one of the generic model's classes.
        answered: who answered.
        logits: the specialist's, float32 [1, classes], where it answered alone; None: the generic model ran, and its
            outputs are the answer.
    """

    class_id: int
    answered: Answered
    logits: Floats | None = None


def cascade(
    specialist: Specialist | None,
    small: Callable[[], Floats],
    generic: Callable[[], int],
    *,
    audit: bool = False,
) -> Verdict:
    """Run the specialist first, then the generic model where it is needed; each at most once.

    Args:
        specialist: the specialist; None: there is none, and the generic model answers.
        small: runs the specialist's trunk on the frame and returns its features, float32 [channels].
        generic: runs the generic model and returns its class.
        audit: run the generic model too, whatever the specialist says.
    """
    if specialist is None:
        return Verdict(class_id=generic(), answered=Answered.GENERIC)
    answer = specialist.answer(small())
    if answer.class_id is None:
        return Verdict(class_id=generic(), answered=Answered.PASSED_ON)
    if not audit:
        return Verdict(class_id=answer.class_id, answered=Answered.SPECIALIST, logits=specialist.logits(answer))
    right = generic()
    return Verdict(class_id=right, answered=Answered.CONFIRMED if right == answer.class_id else Answered.CONTRADICTED)


def class_output(model: Model) -> str:
    """Return the name of a classifier's output.

    Raises:
        CatalogError: the model does not have one vector of classes as its output.
    """
    outputs = model.graph.outputs
    if len(outputs) != 1 or len(model.graph.tensors[outputs[0][1]].shape) != 2:
        raise CatalogError(f"model {model.name} cannot be specialised: its output is no vector of classes")
    return outputs[0][0]
