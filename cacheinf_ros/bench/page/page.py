# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A page with the results in plain words, then tables, plots and pictures, all in one file."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from cacheinf_ros.bench.page.player import Player


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A picture on the page.

    Attributes:
        content: the content of a PNG or JPEG file.
        text: what the picture shows, for those who cannot see it.
        caption: the text below the picture.
    """

    content: bytes
    text: str
    caption: str = ""

    @property
    def uri(self) -> str:
        """The picture as a data URI, which needs no network."""
        kind = "png" if self.content.startswith(b"\x89PNG") else "jpeg"
        return f"data:image/{kind};base64,{base64.b64encode(self.content).decode('ascii')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A share of something, drawn as a bar.

    Attributes:
        share: 0 to 1.
        text: the text beside the bar.
    """

    name: str
    share: float
    text: str

    @property
    def percent(self) -> str:
        """The length of the bar in percent, 0 to 100, as text."""
        return f"{100 * min(max(self.share, 0.0), 1.0):.1f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page; empty fields are left out.

    Attributes:
        title: the heading.
        paragraphs: paragraphs of plain text.
        player: a run to scrub through; at most one on a page.
        bars: shares of a whole.
        heads, rows: a table; the first column names the row.
        marked: index of the row that is highlighted.
        figures: pictures below each other.
        pairs: pairs of pictures side by side.
        code: lines for a file or a terminal.
    """

    title: str
    paragraphs: Sequence[str] = ()
    player: Player | None = None
    bars: Sequence[Bar] = ()
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    marked: int | None = None
    figures: Sequence[Figure] = ()
    pairs: Sequence[tuple[Figure, Figure]] = ()
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The content of a page.

    Attributes:
        title: the title of the page.
        subtitle: what was measured, and on what.
        verdict: sentences, the most important first.
        sections: the parts, in order.
    """

    title: str
    subtitle: str
    verdict: Sequence[str]
    sections: Sequence[Section]


def write_page(page: Page, path: Path) -> None:
    """Write the page into one file; the file's folder is created where it does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_template().render(page=page), encoding="utf-8")


def _template() -> Template:
    loader = PackageLoader("cacheinf_ros.bench.page", package_path="")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html")
