# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf``: the command line, to try the package, measure it, and inspect models and this machine."""

from __future__ import annotations

import logging
import signal
import sys

from cacheinf_ros.errors import CacheinfError, missing_package

_KILLED_BY = 128  # added to a signal's number, as in shells


def main() -> None:
    """Run the command line; an error that the user can do something about is one line, and exit code 2."""
    # exit normally, so that nodes, network namespaces and limits that were set up are taken down, too
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(_KILLED_BY + number))
    try:
        _run()
    except ModuleNotFoundError as error:
        print(f"error: {missing_package(error)}", file=sys.stderr)
        sys.exit(2)


def _run() -> None:
    from rich.console import Console  # here, as all that others have written: what is missing is told in one line
    from rich.logging import RichHandler
    from rich.text import Text

    console = Console(stderr=True)
    logging.basicConfig(
        level=logging.WARNING, format="%(message)s", handlers=[RichHandler(console=console, show_path=False)]
    )
    try:
        if sys.argv[1:] == ["doctor"]:  # alone, as it must run where what other commands and typer import is missing
            from cacheinf_ros.cli.doctor import doctor

            doctor()
        else:
            from cacheinf_ros.cli.all_commands import app

            app()
    except CacheinfError as error:
        # no markup: texts quote what users have written, brackets and all
        console.print(Text.assemble(("error:", "red"), f" {error}"), soft_wrap=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
