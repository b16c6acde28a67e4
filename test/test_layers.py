import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from importlinter import cli

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "cacheinf_ros"


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def test_contracts_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cacheinf_ros.msg")  # a contract names it
    monkeypatch.chdir(ROOT)
    # the plain function: the command around it ends the process
    assert cli.lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True, no_logo=True) == 0


def test_only_nodes_imports_messages() -> None:
    """The contract lists packages by name; this holds for any."""
    elsewhere = [file for file in PACKAGE.rglob("*.py") if file.relative_to(PACKAGE).parts[0] not in ("nodes", "msg")]
    assert elsewhere
    users = {
        file.relative_to(PACKAGE).as_posix()
        for file in elsewhere
        for name in imported(file)
        if name.split(".")[0].endswith("_msgs") or name.startswith("cacheinf_ros.msg") or name.split(".")[0] == "rclpy"
    }
    assert users == set()


def test_package_itself_is_empty() -> None:
    """rosidl installs its own beside ours: whichever is found must be the same."""
    assert (PACKAGE / "__init__.py").read_text().strip() == ""
