# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A reader of HTML pages, with which tests look at what the pages hold."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

_SVG = "http://www.w3.org/2000/svg"  # a name, not an address
VOID = {"meta", "img", "link", "br", "hr", "input"}


@dataclass
class ReadPage(HTMLParser):
    """What an HTML page holds.

    Attributes:
        text: all of the page's text.
        tables: for each table, its rows of cells.
        images: alternative text -> content of the image file.
        outside: addresses that the page would fetch from elsewhere.
        viewport: what the page tells phones about its width.
        wide: the number of tables outside of a box that scrolls by itself.
        run: the data of the page's player.
    """

    text: str = ""
    tables: list[list[list[str]]] = field(default_factory=list)
    images: dict[str, bytes] = field(default_factory=dict)
    outside: list[str] = field(default_factory=list)
    viewport: str = ""
    wide: int = 0
    run: dict[str, Any] = field(default_factory=dict)
    _open: list[tuple[str, str]] = field(default_factory=list)
    _in_run: bool = False

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "meta" and given.get("name") == "viewport":
            self.viewport = given["content"]
        address = given.get("src", given.get("href", ""))
        if address.startswith("data:image/"):
            self.images[given["alt"]] = base64.b64decode(address.partition("base64,")[2], validate=True)
        elif address or tag in ("iframe", "link"):
            self.outside.append(f"{tag} {address}")
        if tag == "table":
            self.wide += ("div", "table") not in self._open
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        self._in_run = tag == "script" and given.get("id") == "run"
        if tag not in VOID:
            self._open.append((tag, given.get("class", "")))

    def handle_endtag(self, tag: str) -> None:
        self._in_run = False
        opened, _ = self._open.pop()
        assert opened == tag, f"{opened} is ended by {tag}"

    def handle_data(self, data: str) -> None:
        inside = self._open[-1][0] if self._open else ""
        if self._in_run:
            self.run = json.loads(data)
            return
        if inside in ("style", "script"):
            rest = data.replace(_SVG, "")
            self.outside += [f"{inside} {word}" for word in ("url(", "@import", "http", "fetch(") if word in rest]
            return
        self.text += data
        if inside in ("td", "th"):
            self.tables[-1][-1][-1] += data


def read_page(path: Path) -> ReadPage:
    """Read a page; fails where it is not self-contained or does not suit a phone."""
    page = ReadPage()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    assert not page._open
    assert page.outside == [] and page.wide == 0
    assert page.viewport == "width=device-width, initial-scale=1"
    assert all(len(row) == len(table[0]) for table in page.tables for row in table)
    return page


def chromium() -> str | None:
    """Return the path of the browser, or None if there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def rendered(path: Path, folder: Path, fragment: str = "") -> str:
    """Return the page's HTML as it is in Chromium once its script has run.

    Args:
        folder: the folder for the browser's profile.
        fragment: the part of the address after its #.
    """
    browser = chromium()
    assert browser is not None
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={folder}",
        "--virtual-time-budget=2000", "--dump-dom", f"{path.as_uri()}#{fragment}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout
