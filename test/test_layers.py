# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Rules of the layers that import-linter's contracts, which `make test` checks beside these tests, cannot express."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "cacheinf_ros"


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def test_only_nodes_imports_messages() -> None:
    """import-linter's contract lists message packages by name; this test holds for any."""
    elsewhere = [file for file in PACKAGE.rglob("*.py") if file.relative_to(PACKAGE).parts[0] not in ("nodes", "msg")]
    elsewhere += (ROOT / "benchmarks").rglob("*.py")
    assert elsewhere
    users = {
        file.relative_to(ROOT).as_posix()
        for file in elsewhere
        for name in imported(file)
        if name.split(".")[0].endswith("_msgs") or name.startswith("cacheinf_ros.msg") or name.split(".")[0] == "rclpy"
    }
    assert users == set()


def test_package_itself_is_empty() -> None:
    """rosidl installs an ``__init__.py`` of its own beside ours, and whichever is found must be the same."""
    assert (PACKAGE / "__init__.py").read_text().strip() == ""


def test_nodes_holds_only_what_imports_ros() -> None:
    """Modules in nodes import ROS, directly or through another one there; any other module belongs elsewhere."""
    modules = {file.stem: set(imported(file)) for file in (PACKAGE / "nodes").glob("*.py") if file.stem != "__init__"}

    def is_ros(name: str) -> bool:
        top = name.split(".")[0]
        return (
            top in ("rclpy", "launch", "launch_ros", "rcl_interfaces", "rosbags")
            or top.endswith("_msgs")
            or name.startswith(("cacheinf_ros.msg", "builtin_interfaces"))
            or name == "cacheinf_ros"  # from cacheinf_ros import msg
        )

    ros = {module for module, names in modules.items() if any(map(is_ros, names))}
    through = {module for module, names in modules.items() if names & {f"cacheinf_ros.nodes.{name}" for name in ros}}
    assert set(modules) == ros | through


def test_every_source_file_names_licence_and_holder() -> None:
    line = "Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0"
    sources = [
        file
        for folder in ("cacheinf_ros", "benchmarks", "launch", "scripts", "test")
        for pattern in ("*.py", "*.cpp", "*.h")
        for file in (ROOT / folder).rglob(pattern)
        if "msg" not in file.relative_to(ROOT).parts and file != PACKAGE / "__init__.py"
    ]
    assert sources
    assert [file for file in sources if line not in file.read_text()[:200]] == []


@cache
def doors(folder: Path) -> frozenset[str]:
    """Return the names in ``__all__`` of a folder's ``__init__.py``: what other folders may import from it."""
    file = folder / "__init__.py"
    statements = ast.parse(file.read_text()).body if file.exists() else []
    return frozenset(
        name
        for node in statements
        if isinstance(node, ast.Assign | ast.AugAssign)
        and ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target) == "__all__"
        for name in ast.literal_eval(node.value)
    )


def ways_to_other_rooms(file: Path) -> Iterator[tuple[str, ...]]:
    """Yield (folder, module, ..., name) for each import of a file from another folder of the package than its own."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file} has a relative import, which nobody follows here"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for way in (tuple(name.split(".")[1:]) for name in names if name.startswith("cacheinf_ros.")):
            if way[0] not in (*file.relative_to(PACKAGE).parts[:1], "msg") and (PACKAGE / way[0]).is_dir():
                yield way


def doors_of(way: tuple[str, ...]) -> Iterator[tuple[Path, str]]:
    """Yield (folder, name that it must list in ``__all__``) for each folder that an import passes through."""
    folder = PACKAGE / way[0]
    for name in way[1:]:
        if not folder.is_dir():
            return
        yield folder, name
        folder /= name


def test_rooms_are_entered_by_the_doors_that_their_init_opens() -> None:
    """Folders directly below the package import from each other only what ``__all__`` lists; tests may look inside."""
    files = [file for file in PACKAGE.rglob("*.py") if "msg" not in file.relative_to(PACKAGE).parts]
    ways = {(file, way) for file in files for way in ways_to_other_rooms(file)}
    assert len(ways) > 1000
    closed = {
        f"{file.relative_to(PACKAGE)}: {'.'.join(way)}, but __all__ of {folder.relative_to(PACKAGE)} has no {name}"
        for file, way in ways
        for folder, name in doors_of(way)
        if name not in doors(folder)
    }
    assert closed == set()


def test_every_opened_module_exists_and_somebody_enters_it() -> None:
    """A module in ``__all__`` that no other folder imports should not be listed there."""
    files = [file for file in PACKAGE.rglob("*.py") if "msg" not in file.relative_to(PACKAGE).parts]
    entered = {door for file in files for way in ways_to_other_rooms(file) for door in doors_of(way)}
    opened, lost = set(), set()
    for init in (file for file in files if file.name == "__init__.py"):
        bound = {
            alias.asname or alias.name
            for node in ast.parse(init.read_text()).body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for name in doors(init.parent) - bound:
            is_there = (init.parent / f"{name}.py").exists() or (init.parent / name / "__init__.py").exists()
            (opened if is_there else lost).add((init.parent, name))
    assert lost == set()
    assert opened
    assert {f"{folder.relative_to(PACKAGE)}/{name}" for folder, name in opened - entered} == set()


def test_no_file_name_stands_twice() -> None:
    """Each file name is unique, so that a traceback or search result tells the file; only folders may share names."""
    names = Counter(file.name for file in PACKAGE.rglob("*.py") if "msg" not in file.relative_to(PACKAGE).parts)
    assert {name for name, count in names.items() if count > 1} == {"__init__.py"}


def attributes(definition: ast.ClassDef) -> set[str]:
    """Return the public attributes of a class: methods, properties, fields, and what its methods set in ``self``."""
    names = {node.name for node in definition.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for node in definition.body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    names |= {
        node.attr
        for node in ast.walk(definition)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
    }
    return {name for name in names if not name.startswith("_")}


def test_no_public_class_has_more_than_fifteen_public_attributes() -> None:
    """Attributes inherited from bases in the package count too, except those that every configuration has.

    Renaming public attributes with an underscore is no way out: what belongs together is grouped in one attribute.
    """
    classes = {
        node.name: node
        for file in PACKAGE.rglob("*.py")
        if "msg" not in file.relative_to(PACKAGE).parts
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef) and node.name != "Config"
    }

    def of(definition: ast.ClassDef) -> set[str]:
        names = [ast.unparse(base).partition("[")[0] for base in definition.bases]
        bases = [classes[name] for name in names if name in classes and classes[name] is not definition]
        return attributes(definition).union(*map(of, bases))

    counts = {name: len(of(each)) for name, each in classes.items() if not name.startswith("_")}
    assert len(counts) > 100
    assert {name: count for name, count in counts.items() if count > 15} == {}


def test_architecture_tells_of_every_folder_and_names_no_file_that_is_gone() -> None:
    told = (ROOT / "docs" / "architecture.md").read_text()
    folders = {file.parent.relative_to(PACKAGE).as_posix() for file in PACKAGE.rglob("*.py")}
    folders = {folder for folder in folders if folder not in (".", "msg") and not folder.startswith("msg/")}
    assert {folder for folder in folders if f"`{folder}/`" not in told} == set()
    named = re.findall(r"`([\w/]+\.(?:py|cpp|svg))`", told)
    assert named
    assert [
        name
        for name in named
        if not any(base.glob(f"**/{name}") for base in (PACKAGE, ROOT / "scripts", ROOT / "test"))
    ] == []
