# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Selects which of a model's answers the user wants to see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from cacheinf_ros.engine.decoders.decoded import Box, Decoded
from cacheinf_ros.errors import ConfigError, shortened

_LONGEST = 20_000  # characters of what a user writes: names of a thousand classes
_MOST_DIGITS = 9
_NAMED = 8  # known classes to name where none is near
_ROUNDING = 1e-6  # of sums such as 0.9 + 0.1
Region = tuple[float, float, float, float]
"""A part of the frame: left, top, width and height, as shares of the frame's size."""
WHOLE: Region = (0.0, 0.0, 1.0, 1.0)
"""The region that is all of the frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which classes and boxes are reported.

    Attributes:
        score_threshold: the least score, in place of the model card's; None: the card's.
        classes: ids of the classes; None: all.
        region: the region in which a box's centre must lie.
    """

    score_threshold: float | None = None
    classes: frozenset[int] | None = None
    region: Region = WHOLE

    @classmethod
    def of(
        cls, score_threshold: float, classes: str, labels: tuple[str, ...], region: Sequence[float] = WHOLE
    ) -> Selection:
        """Read a selection as a user wrote it.

        Args:
            score_threshold: the least score; 0: the card's.
            classes: names or ids, separated by commas; empty: all.
            labels: names of the model's classes.
            region: see :data:`Region`.

        Raises:
            ConfigError: the model has no such class, or the region is no part of a frame.
        """
        if len(classes) > _LONGEST:
            raise ConfigError(f"classes: {len(classes)} characters are too many: {_LONGEST} are the most")
        words = {word.strip().lower() for word in classes.split(",") if word.strip()}
        lower = [label.lower() for label in labels]
        return cls(
            score_threshold=score_threshold or None,
            classes=frozenset().union(*(_ids_of(word, labels, lower) for word in sorted(words))) if words else None,
            region=_region(region),
        )

    def applied(self, decoded: Decoded, image_size: tuple[int, int]) -> Decoded:
        """Return what is reported of answers to a frame of (height, width) that were read without this selection."""
        classes = [each for each in decoded.classes if self.shows(each.id, each.score)]
        boxes = [box for box in decoded.boxes if self.shows(box.class_id, box.score)]
        inside = [box for box in boxes if self.region == WHOLE or self._contains(box, image_size)]
        return replace(decoded, classes=tuple(classes), boxes=tuple(inside))

    def shows(self, class_id: int, score: float) -> bool:
        """Tell whether an answer of this class and score is reported."""
        is_wanted = self.classes is None or class_id in self.classes
        return is_wanted and (self.score_threshold is None or score >= self.score_threshold)

    def _contains(self, box: Box, image_size: tuple[int, int]) -> bool:
        left, top, width, height = self.region
        x, y = (box.x + box.width / 2) / image_size[1], (box.y + box.height / 2) / image_size[0]
        return left <= x <= left + width and top <= y <= top + height


def _region(values: Sequence[float]) -> Region:
    if len(values) == 4:
        left, top, width, height = map(float, values)
        if min(left, top) >= 0 and min(width, height) > 0 and max(left + width, top + height) <= 1 + _ROUNDING:
            return left, top, width, height
    raise ConfigError(
        f"region {list(values)}: give left, top, width and height as shares of the picture's, for example "
        "[0.0, 0.5, 1.0, 0.5] for its lower half"
    )


def _ids_of(word: str, labels: tuple[str, ...], lower: Sequence[str]) -> frozenset[int]:
    """Return the classes that a word means: several may have one name, as ImageNet's two cranes."""
    if word in lower:
        return frozenset(number for number, label in enumerate(lower) if label == word)
    if word.isdecimal() and len(word) <= _MOST_DIGITS and (not labels or int(word) < len(labels)):
        return frozenset({int(word)})
    word = shortened(word)
    if not labels:
        raise ConfigError(f"classes: this model's classes have no names: give the id of {word!r}")
    near = get_close_matches(word, lower, n=3)
    known = [labels[lower.index(each)] for each in near] or [
        *labels[:_NAMED],
        *(["..."] if len(labels) > _NAMED else []),
    ]
    raise ConfigError(
        f"classes: the model knows no {word!r}; {'near' if near else 'it knows'}: {', '.join(known)} "
        f"(or ids, 0 to {len(labels) - 1})"
    )
