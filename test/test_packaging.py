# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

import ast
import importlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cacheinf_ros.cli.doctor import PACKAGES

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MESSAGES = sorted(file.stem for file in (ROOT / "msg").glob("*.msg"))

PUBLISHER = """
import sys, time, rclpy
from cacheinf_ros.msg import CacheMap
rclpy.init()
node = rclpy.create_node("publisher")
publisher = node.create_publisher(CacheMap, "cache_map", 10)
while publisher.get_subscription_count() == 0:
    time.sleep(0.05)
message = CacheMap(sequence=7, reason="from another process")
message.reusable.frombytes(bytes([0b10100000, 255]))
publisher.publish(message)
publisher.wait_for_all_acked(rclpy.duration.Duration(seconds=10))
sys.stdin.read()
"""


def normalised(requirement: str) -> str:
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name.group()).lower()


def test_every_dependency_is_pinned_once() -> None:
    files = [(ROOT / name).read_text() for name in ("requirements.txt", "requirements-fleet.txt")]
    pins = [line for text in files for line in text.splitlines() if line and line[0] != "#"]
    assert all("==" in pin for pin in pins)
    names = [normalised(pin) for pin in pins]
    assert len(names) == len(set(names))
    extras = [name for extra in PROJECT["optional-dependencies"].values() for name in extra]
    assert {normalised(name) for name in [*PROJECT["dependencies"], *extras]} <= set(names)


def test_one_version() -> None:
    version = ElementTree.parse(ROOT / "package.xml").findtext("version")
    assert importlib.metadata.version("cacheinf_ros") == version


@pytest.mark.parametrize(
    "script", ["matcher", "inference", "server", "replay", "cached_inference", "catalog_inference"]
)
def test_executable_calls_a_main(script: str) -> None:
    file = ROOT / "scripts" / script
    assert os.access(file, os.X_OK)
    assert f"scripts/{script}" in (ROOT / "cmake" / "install.cmake").read_text()
    node = ROOT / "cacheinf_ros" / "nodes" / f"{script}.py"
    assert "from cacheinf_ros.harness.start_node import main" in file.read_text()
    assert f'main("{script}")' in file.read_text()
    assert "main" in {each.name for each in ast.parse(node.read_text()).body if isinstance(each, ast.FunctionDef)}


MISSING = """
import runpy, sys

class Missing:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing)
sys.argv = {argv!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run_without(packages: str, *command: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a script of ours where these packages, separated by spaces, are not installed, as it seems."""
    code = MISSING.format(missing=packages.split(), argv=list(command))
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=folder)


def test_the_command_of_a_colcon_build_tells_a_mistake_in_one_line() -> None:
    ended = run_without("", str(ROOT / "scripts" / "cacheinf"), "models", "inspect", "nothing.onnx")
    assert ended.returncode == 2
    assert "nothing.onnx does not exist" in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("torch", "models list"), ("pydantic", "models list"), ("typer", "models list"), ("rich", "doctor"),
        ("onnx", "models inspect any.onnx"),
    ],
)  # fmt: skip
def test_a_command_names_the_package_that_is_missing(package: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "any.onnx").write_bytes(b"any")
    ended = run_without(package, str(ROOT / "scripts" / "cacheinf"), *words.split(), folder=tmp_path)
    assert ended.returncode == 2
    assert f"no module {package}: activate the virtual environment" in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("words", [("cacheinf", "replay", "scene:fixed"), ("cacheinf", "doctor"), ("matcher",)])
def test_messages_that_are_not_built_are_named_with_the_remedy(words: tuple[str, ...], tmp_path: Path) -> None:
    script, *others = words
    ended = run_without("cacheinf_ros.msg", str(ROOT / "scripts" / script), *others, folder=tmp_path)
    said = " ".join((ended.stdout + ended.stderr).split())
    assert ended.returncode == (1 if "doctor" in words else 2), said
    assert "make build" in said and "install/setup.bash" in said.replace("│ ", "")
    assert "Traceback" not in said


@pytest.mark.parametrize("package", ["pydantic", "cv2", "numpy"])
def test_a_node_names_the_package_that_is_missing(package: str) -> None:
    ended = run_without(package, str(ROOT / "scripts" / "matcher"))
    assert ended.returncode == 2
    assert f"no module {package}: activate the virtual environment" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_doctor_runs_without_what_it_is_to_report() -> None:
    missing = "torch cv2 psutil pydantic scipy safetensors"
    ended = run_without(missing, str(ROOT / "scripts" / "cacheinf"), "doctor")
    assert ended.returncode == 1
    assert "Fast DDS" in ended.stdout and "commands" in ended.stdout
    assert "Traceback" not in ended.stdout + ended.stderr


def test_doctor_knows_all_dependencies() -> None:
    assert {normalised(name) for name in PROJECT["dependencies"]} == set(PACKAGES)


def test_kernels_are_compiled_where_there_is_a_compiler() -> None:
    if not any(shutil.which(name) for name in ("c++", "g++", "clang++")):
        pytest.skip("no C++ compiler")
    library = importlib.import_module("cacheinf_ros.engine.kernels.kernel_library").kernel_library()
    assert library is not None
    assert library.ci_instruction_set() in (b"avx512", b"avx2", b"i8mm", b"dotprod", b"base")


def test_all_messages_are_built() -> None:
    pytest.importorskip("rclpy")
    built = importlib.import_module("cacheinf_ros.msg")
    assert MESSAGES
    assert all(hasattr(built, name) for name in MESSAGES)


def test_package_is_in_the_ament_index(monkeypatch: pytest.MonkeyPatch) -> None:
    ament = pytest.importorskip("ament_index_python")
    if not os.environ.get("AMENT_PREFIX_PATH"):  # the wheels do not set it
        monkeypatch.setenv("AMENT_PREFIX_PATH", sys.prefix)
    share = Path(ament.get_package_share_directory("cacheinf_ros"))
    assert (share / "config" / "cacheinf.yaml").is_file()
    assert (share / "launch" / "cacheinf.launch.py").is_file()
    assert [file.stem for file in sorted((share / "msg").glob("*.msg"))] == MESSAGES


def ros_imports() -> set[str]:
    """Return the ROS packages that the code imports, other than its own, as far as this machine's ROS knows them."""
    ament = pytest.importorskip("ament_index_python")
    trees = [ast.parse(file.read_text()) for folder in ("cacheinf_ros", "launch") for file in python_files(folder)]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names} & set(ament.get_packages_with_prefixes()) - {"cacheinf_ros"}


def python_files(folder: str) -> list[Path]:
    generated = ROOT / "cacheinf_ros" / "msg"
    return [file for file in (ROOT / folder).rglob("*.py") if generated not in file.parents]


def test_ros_packages_that_are_imported_are_dependencies(monkeypatch: pytest.MonkeyPatch) -> None:
    if not os.environ.get("AMENT_PREFIX_PATH"):
        monkeypatch.setenv("AMENT_PREFIX_PATH", sys.prefix)
    package = ElementTree.parse(ROOT / "package.xml").getroot()
    imported = ros_imports()
    assert {"rclpy", "sensor_msgs"} <= imported
    assert imported <= {each.text for kind in ("depend", "exec_depend") for each in package.iter(kind)}


def test_shells_of_containers_can_set_up_a_distribution(tmp_path: Path) -> None:
    """Shells that source setup.bash must not forbid unset variables: setup.bash reads some."""
    ament = Path(pytest.importorskip("ament_package").__file__).parent
    shutil.copy(ament / "template" / "prefix_level" / "setup.bash", tmp_path)
    (tmp_path / "setup.sh").touch()  # setup.bash sources it
    shell = re.search(r"^SHELL (\[.*\])$", (ROOT / "docker" / "Dockerfile").read_text(), re.MULTILINE)
    assert shell is not None
    source = f"source {tmp_path}/setup.bash && echo set up"
    for command in ([*ast.literal_eval(shell[1]), source], ["bash", "-c", f"{entrypoint_settings()}; {source}"]):
        ended = subprocess.run(command, capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
        assert ended.stdout.endswith("set up\n"), ended.stderr


def test_containers_hold_the_inner_loops_that_make_compiles() -> None:
    """Each new container compiled them anew."""
    make, docker = ((ROOT / name).read_text() for name in ("Makefile", "docker/Dockerfile"))
    (compiled,) = re.findall(r"-c 'import (cacheinf_ros\..*)'", make)
    assert f"RUN /entrypoint python3 -c 'import {compiled}'" in docker[docker.index("colcon build") :]


def entrypoint_settings() -> str:
    (settings,) = re.findall(r"^set .*$", (ROOT / "docker" / "entrypoint").read_text(), re.MULTILINE)
    return str(settings)


def test_message_crosses_processes(domain: int) -> None:
    """A wrongly installed type support library breaks this: it is searched for by name at run time."""
    rclpy = pytest.importorskip("rclpy")
    from cacheinf_ros.msg import CacheMap

    context = rclpy.Context()
    rclpy.init(context=context, domain_id=domain)
    node = rclpy.create_node("subscriber", context=context)
    executor = rclpy.executors.SingleThreadedExecutor(context=context)
    executor.add_node(node)
    received: list[CacheMap] = []
    node.create_subscription(CacheMap, "cache_map", received.append, 10)
    environment = {**os.environ, "ROS_DOMAIN_ID": str(domain)}
    publisher = subprocess.Popen([sys.executable, "-c", PUBLISHER], env=environment, stdin=subprocess.PIPE)
    try:
        for _ in range(300):
            if received or publisher.poll() is not None:
                break
            executor.spin_once(timeout_sec=0.2)
    finally:
        publisher.communicate()
        executor.shutdown()
        node.destroy_node()
        rclpy.shutdown(context=context)
    assert [(message.sequence, message.reason, bytes(message.reusable)) for message in received] == [
        (7, "from another process", b"\xa0\xff")
    ]
