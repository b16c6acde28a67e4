# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What of a model's answers the user wants to see."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches

from cacheinf_ros.engine.decoders.decoded import Decoded
from cacheinf_ros.errors import ConfigError

_NAMED = 8  # of the known classes, where none is near


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which classes and boxes are reported.

    Attributes:
        score_threshold: the least score, in place of the model card's; None: the card's.
        classes: ids of the classes; None: all.
    """

    score_threshold: float | None = None
    classes: frozenset[int] | None = None

    @classmethod
    def of(cls, score_threshold: float, classes: str, labels: tuple[str, ...]) -> Selection:
        """Read what a user wrote.

        Args:
            score_threshold: 0: the card's.
            classes: names or ids, separated by commas; empty: all.
            labels: names of the model's classes.

        Raises:
            ConfigError: the model has no such class.
        """
        words = [word.strip() for word in classes.split(",") if word.strip()]
        return cls(
            score_threshold=score_threshold or None,
            classes=frozenset(_id_of(word, labels) for word in words) if words else None,
        )

    def applied(self, decoded: Decoded) -> Decoded:
        """What is reported of answers that were read without this selection."""
        return replace(
            decoded,
            classes=tuple(each for each in decoded.classes if self.shows(each.id, each.score)),
            boxes=tuple(box for box in decoded.boxes if self.shows(box.class_id, box.score)),
        )

    def shows(self, class_id: int, score: float) -> bool:
        """Whether an answer is reported."""
        is_wanted = self.classes is None or class_id in self.classes
        return is_wanted and (self.score_threshold is None or score >= self.score_threshold)


def _id_of(word: str, labels: tuple[str, ...]) -> int:
    lower = [label.lower() for label in labels]
    if word.lower() in lower:
        return lower.index(word.lower())
    if word.isdigit() and (not labels or int(word) < len(labels)):
        return int(word)
    if not labels:
        raise ConfigError(f"classes: this model's classes have no names: give the id of {word!r}")
    near = get_close_matches(word.lower(), lower, n=3)
    known = [labels[lower.index(each)] for each in near] or [
        *labels[:_NAMED],
        *(["..."] if len(labels) > _NAMED else []),
    ]
    raise ConfigError(
        f"classes: the model knows no {word!r}; {'near' if near else 'it knows'}: {', '.join(known)} "
        f"(or ids, 0 to {len(labels) - 1})"
    )
