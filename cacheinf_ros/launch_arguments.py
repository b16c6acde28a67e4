# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The arguments of the launch files, and what they make of the nodes' parameters.

Nothing here imports launch, which has no wheel, nor the nodes' configurations, which take seconds to import. A test
asserts that names, types and choices are those of the configurations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cacheinf_ros.errors import ConfigError
from cacheinf_ros.parameter_names import RENAMED, meant_by, what_became_of

Value = bool | int | float | str | list[str] | list[float]

PACKAGE = "cacheinf_ros"
_LAUNCHS_OWN = frozenset({"launch-prefix", "launch-prefix-filter", "sigterm_timeout", "sigkill_timeout", "emulate_tty"})
"""Launch configurations that ``ros2 launch`` and its actions read themselves."""
_FLAGS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of values.

    Attributes:
        read: from text; ValueError or KeyError where that is not possible.
        wanted: what to give.
    """

    read: Callable[[str], Value]
    wanted: str


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


FLAG = Kind(lambda text: _FLAGS[text.lower()], "true or false")
INTEGER = Kind(int, "a whole number")
NUMBER = Kind(float, "a number")
TEXT = Kind(str, "text")
TEXTS = Kind(_parts, "texts, separated by commas")
NUMBERS = Kind(lambda text: [float(part) for part in _parts(text)], "numbers, separated by commas")


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a launch file.

    Attributes:
        default: as text; empty: what params_file says, or else the node.
        is_parameter: of the nodes; else it is about the launch itself.
    """

    name: str
    kind: Kind
    description: str
    default: str = ""
    is_parameter: bool = True

    @property
    def help(self) -> str:
        """What ``--show-args`` says."""
        return self.description + ("; empty: see params_file" if self.is_parameter and not self.default else "")

    def but(self, default: str) -> Argument:
        """The same with another default."""
        return replace(self, default=default)

    def value(self, text: str) -> Value:
        """What the text means; :class:`ConfigError` where it means nothing."""
        try:
            return self.kind.read(text)
        except (KeyError, ValueError):
            raise ConfigError(f"{self.name}:={text}: give {self.kind.wanted}") from None


NAMESPACE = Argument("namespace", TEXT, "namespace of the nodes", is_parameter=False)
PARAMS_FILE = Argument("params_file", TEXT, "YAML file of parameters", is_parameter=False)
LOG_LEVEL = Argument("log_level", TEXT, "debug, info, warn, error", "info", is_parameter=False)
USE_SIM_TIME = Argument("use_sim_time", FLAG, "take the time from /clock")
COMMON = (NAMESPACE, PARAMS_FILE, LOG_LEVEL, USE_SIM_TIME)

IMAGE_TOPIC = Argument("image_topic", TEXT, "the images; '/compressed' is appended for compressed transport")
IMAGE_TRANSPORT = Argument("image_transport", TEXT, "raw or compressed")
CAMERA = (IMAGE_TOPIC, IMAGE_TRANSPORT, Argument("image_reliability", TEXT, "auto, reliable or best_effort"))
MATCHING = (
    Argument("matcher", TEXT, "auto, identity, diamond_optimised or homography"),
    Argument("threshold", NUMBER, "least PSNR of a reusable block, dB; 100: only what is equal in every byte"),
    Argument("block_size", INTEGER, "side of a block, pixels"),
    Argument("expiry", INTEGER, "frames after which the reference is dropped; mode deepcache needs about 10"),
)
MODEL = (
    Argument("model", TEXT, "torchvision:NAME, package.module:factory, an .onnx file, ...: see docs/nodes.md"),
    Argument("weights", TEXT, "file of weights in place of the model's own"),
    Argument("input_size", TEXT, "size of the model's input, such as 480x640 (height x width)"),
)
ENGINE = (
    Argument("mode", TEXT, "what is taken from the cache: dense, exact, deepcache or bounded"),
    Argument("max_error", NUMBER, "mode bounded: error to stay below"),
    Argument("dense_precision", TEXT, "mode bounded: float32, float16, bfloat16 or int8, the least to compute in"),
    Argument("device", TEXT, "that holds the model: cpu, cuda, cuda:1"),
    Argument("threads", INTEGER, "threads of the engine's own kernels"),
)
RESULTS = (Argument("outputs", TEXT, "what results carry: decoded or all"),)
USE_SERVER = Argument("server.use", FLAG, "share frames with a server")
START_SERVER = Argument("server.use", FLAG, "start a server too, and share frames with it")
OFFLOAD_POLICY = Argument("server.policy", TEXT, "who computes what, with a server: see docs/nodes.md")
SINGLE_PROCESS = Argument(
    "single_process", FLAG, "matching and inference in one process, or in two", "true", is_parameter=False
)
CATALOGS = Argument("catalogs", TEXTS, "folders, separated by commas")

ROBOT = (*CAMERA, *MODEL, *MATCHING, *ENGINE, *RESULTS, OFFLOAD_POLICY, SINGLE_PROCESS, *COMMON)
SERVER = (*MODEL, *MATCHING, *ENGINE, *RESULTS, CATALOGS, *COMMON)
CATALOG = (
    *CAMERA,
    CATALOGS,
    Argument("rates", NUMBERS, "Hz, separated by commas: one per catalog, or one for all"),
    Argument("energy_budget_j", NUMBER, "energy until the horizon, J"),
    Argument("cloud_budget", NUMBER, "what the server may be paid until the horizon, dollars"),
    Argument("budget_horizon_s", NUMBER, "how long the budgets are to last, s"),
    Argument("device_memory_mb", NUMBER, "memory for variants on this device, 10**6 bytes"),
    Argument("policy", TEXT, "who serves: accuracy, server_first, device_first, server_only or device_only"),
    *MATCHING,
    *ENGINE,
    USE_SERVER,
    OFFLOAD_POLICY,
    Argument("server", FLAG, "start the server on this machine too, and use it", "false", is_parameter=False),
    *COMMON,
)
REPLAY = (
    Argument("source", TEXT, "video, bag, folder or scene:NAME"),
    Argument("rate", NUMBER, "images per second; 0: the source's own rate"),
    Argument("loop", FLAG, "start again at the end"),
    Argument("publish_clock", FLAG, "publish the source's time on /clock"),
    IMAGE_TOPIC,
    IMAGE_TRANSPORT,
    NAMESPACE,
    PARAMS_FILE,
    LOG_LEVEL,
)


class Given:
    """What the user gave to a launch file, and the defaults of what is about the launch itself."""

    def __init__(self, arguments: Iterable[Argument], configurations: Mapping[str, str]) -> None:
        """Read them; :class:`ConfigError` where one cannot be."""
        texts = {argument: configurations.get(argument.name, argument.default) for argument in arguments}
        self._values = {argument.name: argument.value(text) for argument, text in texts.items() if text}
        self._parameters = {argument.name for argument in texts if argument.is_parameter}

    @property
    def parameters(self) -> dict[str, Value]:
        """Of the nodes: they win over those of the file."""
        return {name: value for name, value in self._values.items() if name in self._parameters}

    def text(self, name: str) -> str:
        """Empty where nothing was given."""
        return str(self._values.get(name, ""))

    def flag(self, name: str) -> bool:
        """False where nothing was given."""
        return bool(self._values.get(name, False))


def refuse_unknown(arguments: Iterable[Argument], given: Sequence[str]) -> None:
    """What ``ros2 launch`` would ignore without a word.

    Args:
        arguments: that there are.
        given: words such as ``name:=value``.

    Raises:
        ConfigError: names those that there are not, and those that there are.
    """
    known = [argument.name for argument in arguments]
    names = [word.partition(":=")[0] for word in given]
    complaints = [_complaint(name, known) for name in names if name not in known and name not in _LAUNCHS_OWN]
    if complaints:
        raise ConfigError(f"{', '.join(complaints)}. The arguments are: {', '.join(sorted(known))}")


def say_former(arguments: Iterable[Argument], configurations: Iterable[str]) -> list[str]:
    """What has become of arguments that another launch file still gives under their former names, a line for each."""
    known = {argument.name for argument in arguments}
    return [f"launch argument {what_became_of(name)}" for name in configurations if RENAMED.get(name) in known]


def _complaint(name: str, known: Sequence[str]) -> str:
    became = what_became_of(name)
    return f"launch argument {became}" if became else f"unknown launch argument {name!r}{meant_by(name, known)}"


def is_launched_itself(file: Path, command_line: Sequence[str]) -> bool:
    """Whether ``ros2 launch`` was told to run this launch file, and not another one that includes it."""
    by_path = any(Path(word).is_file() and file.samefile(word) for word in command_line if word.endswith(file.name))
    return by_path or {PACKAGE, file.name} <= set(command_line)
