# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Counts the package's lines by kind and folder: ``python scripts/count_lines.py [--depth 2] [--files]``.

Only what git tracks counts, so that generated messages and builds do not; nor do models' weights and their cards. A
docstring is any string that stands alone, as those behind constants do. A line with code and a comment is code.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("code", "docstring", "comment", "blank")
# Where a comment of several lines begins and ends, and how one of a single line begins.
COMMENTS = {
    ".cpp": (r"/\*", r"\*/", r"//"),
    ".h": (r"/\*", r"\*/", r"//"),
    ".js": (r"/\*", r"\*/", r"//"),
    ".html": (r"<!--|/\*", r"-->|\*/", r"<!--.*-->$"),
}


def python_kinds(text: str) -> Counter[str]:
    """How many lines of a Python file are of each kind."""
    docstrings: set[int] = set()
    strings: set[int] = set()  # their lines may look like comments, or be empty
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, ast.Constant | ast.JoinedStr):
            strings.update(range(node.lineno + 1, (node.end_lineno or node.lineno) + 1))
    counts: Counter[str] = Counter()
    for number, line in enumerate(text.splitlines(), 1):
        if number in docstrings:
            counts["docstring"] += 1
        elif number in strings:
            counts["code"] += 1
        elif not line.strip():
            counts["blank"] += 1
        else:
            counts["comment" if line.lstrip().startswith("#") else "code"] += 1
    return counts


def other_kinds(text: str, suffix: str) -> Counter[str]:
    """How many lines of a file in C++, JavaScript or HTML are of each kind."""
    begin, end, single = COMMENTS[suffix]
    counts: Counter[str] = Counter()
    inside = False
    for line in (each.strip() for each in text.splitlines()):
        begins = re.match(begin, line) is not None
        if not line:
            counts["blank"] += 1
        elif inside or begins or re.match(single, line):
            counts["comment"] += 1
            inside = (inside or begins) and re.search(end, line) is None
        else:
            counts["code"] += 1
    return counts


def kinds(file: Path) -> Counter[str]:
    """How many lines of a file are of each kind."""
    text = file.read_text(encoding="utf-8")
    return python_kinds(text) if file.suffix == ".py" else other_kinds(text, file.suffix)


def tracked(folder: str) -> list[Path]:
    """The source files below a folder, as they are in the working tree."""
    listed = subprocess.check_output(["git", "ls-files", "-z", folder], cwd=ROOT, text=True).split("\0")
    files = (ROOT / name for name in listed if name)
    return [file for file in files if file.suffix in (".py", *COMMENTS) and file.exists()]


def print_table(title: str, files: list[Path], row_of: Callable[[Path], str]) -> None:
    """A line for each row that files belong to, and one for all of them."""
    rows: dict[str, Counter[str]] = {}
    for file in files:
        rows.setdefault(row_of(file.relative_to(ROOT)), Counter()).update({"files": 1, **kinds(file)})
    rows["all"] = sum(rows.values(), Counter())
    width = max(len(title), *map(len, rows))
    print(f"{title:{width}} {'files':>6} {'lines':>7} " + " ".join(f"{kind:>9}" for kind in KINDS))
    for name, counts in rows.items():
        lines = sum(counts[kind] for kind in KINDS)
        print(f"{name:{width}} {counts['files']:6} {lines:7} " + " ".join(f"{counts[kind]:9}" for kind in KINDS))
    print()


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--depth", type=int, default=1, help="of the package's folders that are told apart")
    parser.add_argument("--files", action="store_true", help="a line for each file of the package")
    options = parser.parse_args()

    def room(file: Path) -> str:
        return file.as_posix() if options.files else "/".join(file.parts[:-1][: options.depth + 1])

    print_table("package", tracked("cacheinf_ros"), room)
    print_table("package by language", tracked("cacheinf_ros"), lambda file: file.suffix)
    print_table("beside it", tracked("benchmarks") + tracked("test"), lambda file: file.parts[0])


if __name__ == "__main__":
    main()
