# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Parse untrusted YAML in time and memory that its length bounds, and write YAML so that truncation is noticed.

A loader recurses, libyaml takes time that grows with the square of the depth, and aliases of aliases make a short text
exponentially long. So the depth and the size of the content are checked before anything is built.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_FIRST, _LAST = '# This file ends with the line "# end"; otherwise it was cut off.', "# end"
LONGEST = 1_000_000
"""The longest text that is parsed, in characters; a thousand classes with long names take a tenth of it."""
DEEPEST = 20
"""The deepest nesting of collections that is parsed; cards and catalogs have five levels."""
_MOST_MORE = 100_000  # what aliases may add to a short text
_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's, where PyYAML has it


def parse_yaml(text: str) -> Any:
    """Parse plain YAML.

    Returns:
        Dictionaries, lists, texts, numbers, dates and None.

    Raises:
        ValueError: the text is no YAML, was cut off after :func:`whole_yaml` wrote it, is longer than :data:`LONGEST`,
            is nested deeper than :data:`DEEPEST`, has an impossible date or number, or its aliases make too much of it.
    """
    if len(text) > LONGEST:
        raise ValueError(f"more than {LONGEST} characters")
    if text.startswith(_FIRST) and not text.rstrip().endswith(f"\n{_LAST}"):
        raise ValueError(f"it was cut off: its last line is not {_LAST!r} (if nothing lacks, remove its first line)")
    try:
        _check(text)
        return yaml.load(text, Loader=_LOADER)
    except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, TypeError) as error:  # tags that do not suit
        raise ValueError(str(error) or type(error).__name__) from None


def read_yaml_text(path: Path) -> Any:
    """Parse a file as :func:`parse_yaml` does, without reading more of it than that accepts.

    Raises:
        OSError: the file cannot be read.
        ValueError: where :func:`parse_yaml` raises it, or the file is not UTF-8.
    """
    with path.open(encoding="utf-8") as file:
        return parse_yaml(file.read(LONGEST + 1))


def whole_yaml(content: dict[str, Any]) -> str:
    """Write plain values as YAML that :func:`parse_yaml` refuses where its end is missing.

    Comments in its first and last line mark both ends. People may edit everything between them, and programs that keep
    no comments remove both.
    """
    return f"{_FIRST}\n{yaml.safe_dump(content, sort_keys=False, width=120)}{_LAST}\n"


@dataclass(slots=True)
class _Extent:
    """The extent of a collection or a scalar, with its aliases expanded.

    Attributes:
        size: how many nodes and characters it has.
        depth: how deep its collections are nested.
    """

    size: int = 1
    depth: int = 0


def _check(text: str) -> None:
    most = 4 * len(text) + _MOST_MORE  # of a text without aliases: "{a," is a key of one letter and no value
    open_ones, anchors, of_anchors = [_Extent(0, 0)], [""], dict[str, _Extent]()
    for event in yaml.parse(text, Loader=_LOADER):
        place = f"line {event.start_mark.line + 1}" if event.start_mark else "somewhere"
        if isinstance(event, yaml.CollectionStartEvent):
            open_ones.append(_Extent(depth=1))
            anchors.append(event.anchor or "")
            found = _Extent(0, 0)
        elif isinstance(event, yaml.CollectionEndEvent):
            found = open_ones.pop()
            of_anchors[anchors.pop()] = found
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in of_anchors:
                raise ValueError(f"{place}: an alias of nothing that came before")
            found = of_anchors[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            found = of_anchors[event.anchor or ""] = _Extent(1 + len(event.value))
        else:
            continue
        outer = open_ones[-1]
        outer.size += found.size
        outer.depth = max(outer.depth, 1 + found.depth)
        if len(open_ones) - 1 + found.depth > DEEPEST:
            raise ValueError(f"{place}: more than {DEEPEST} collections within each other")
        if sum(each.size for each in open_ones) > most:
            raise ValueError(f"{place}: aliases make too much of this text; write out what they repeat")
