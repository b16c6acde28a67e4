# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A page to look at: what came out in plain words, then tables, plots and pictures, all in one file."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from cacheinf_ros.bench.page.player import Player


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A picture.

    Attributes:
        content: of a PNG or JPEG file.
        text: what it shows, for who cannot see it.
        caption: below it.
    """

    content: bytes
    text: str
    caption: str = ""

    @property
    def uri(self) -> str:
        """The picture itself, as an address that needs no network."""
        kind = "png" if self.content.startswith(b"\x89PNG") else "jpeg"
        return f"data:image/{kind};base64,{base64.b64encode(self.content).decode('ascii')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A share of something; ``share``: 0 to 1, ``text``: beside it."""

    name: str
    share: float
    text: str

    @property
    def percent(self) -> str:
        """How long it is."""
        return f"{100 * min(max(self.share, 0.0), 1.0):.1f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page; what it lacks is left out.

    Attributes:
        title: above it.
        paragraphs: of plain text.
        player: to scrub through; one on a page.
        bars: shares of a whole.
        heads, rows: of a table; the first column names the row.
        marked: the number of a row that stands out.
        figures: below each other.
        pairs: of pictures side by side.
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
    """All of it.

    Attributes:
        title: of the page.
        subtitle: what was measured on what.
        verdict: sentences, the most important first.
        sections: in their order.
    """

    title: str
    subtitle: str
    verdict: Sequence[str]
    sections: Sequence[Section]


def write_page(page: Page, path: Path) -> None:
    """Write the page into one file; its folder is made where it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_template().render(page=page), encoding="utf-8")


def _template() -> Template:
    loader = PackageLoader("cacheinf_ros.bench.page", package_path="")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html")
