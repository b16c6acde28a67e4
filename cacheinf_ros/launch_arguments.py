# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The arguments of the launch files, and the nodes' parameters that they become.

Nothing here imports launch, which has no wheel, nor the nodes' configurations, which take seconds to import: names,
types, descriptions and defaults are read from their source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cacheinf_ros.config_source import declared_parameters
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.parameter_names import RENAMED, meant_by, what_became_of

Value = bool | int | float | str | list[str] | list[float]

PACKAGE = "cacheinf_ros"
_LAUNCHS_OWN = frozenset({"launch-prefix", "launch-prefix-filter", "sigterm_timeout", "sigkill_timeout", "emulate_tty"})
"""Launch configurations that ``ros2 launch`` and its actions read themselves."""
_FLAGS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of argument values.

    Attributes:
        read: converts text to a value; raises ValueError or KeyError where that is not possible.
        wanted: what the user has to give, for error messages.
        more: what is added to the description of an argument.
    """

    read: Callable[[str], Value]
    wanted: str
    more: str = ""


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


FLAG = Kind(lambda text: _FLAGS[text.lower()], "true or false")
INTEGER = Kind(int, "a whole number")
NUMBER = Kind(float, "a number")
TEXT = Kind(str, "text")
TEXTS = Kind(_parts, "texts, separated by commas", "; separated by commas")
NUMBERS = Kind(
    lambda text: [float(part) for part in _parts(text)], "numbers, separated by commas", "; separated by commas"
)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a launch file.

    Attributes:
        default: default as text; empty: the value in params_file, or else the node's own default.
        nodes_default: the node's own default, as text.
        is_parameter: whether it is a parameter of the nodes; otherwise it is about the launch itself.
        otherwise: what happens where it is not given, in place of the usual.
    """

    name: str
    kind: Kind
    description: str
    default: str = ""
    nodes_default: str = ""
    is_parameter: bool = True
    otherwise: str = ""

    @property
    def help(self) -> str:
        """The description that ``--show-args`` prints."""
        described = f"{self.description}{self.kind.more}"
        if self.otherwise:
            return f"{described}; not given: {self.otherwise}"
        if self.default or not self.is_parameter:
            return described
        return f"{described}; not given: as in params_file" + (
            f", else {self.nodes_default}" * bool(self.nodes_default)
        )

    def but(self, default: str) -> Argument:
        """Return the argument with another default."""
        return replace(self, default=default)

    def value(self, text: str) -> Value:
        """Convert the text of a value; raises :class:`ConfigError` where it is not of the argument's kind."""
        try:
            return self.kind.read(text)
        except (KeyError, ValueError):
            raise ConfigError(f"{self.name}:={text}: give {self.kind.wanted}") from None


_KINDS = {"bool": FLAG, "int": INTEGER, "float": NUMBER, "tuple[str, ...]": TEXTS, "tuple[float, ...]": NUMBERS}
_NODES = "pipeline/node_configs.py"
_CATALOGS = "catalog/serving/catalog_node_configs.py"


def _declared(file: str, config: str, *names: str) -> tuple[Argument, ...]:
    """Make arguments for parameters of a configuration; a type without a kind of its own (an enum) counts as text."""
    found = [declared_parameters(file, config)[name] for name in names]
    return tuple(
        Argument(each.name, _KINDS.get(each.type, TEXT), each.description, nodes_default=each.default) for each in found
    )


NAMESPACE = Argument("namespace", TEXT, "namespace of the nodes", is_parameter=False)
PARAMS_FILE = Argument("params_file", TEXT, "YAML file of parameters", is_parameter=False)
LOG_LEVEL = Argument("log_level", TEXT, "debug, info, warn, error", "info", is_parameter=False)
ENCLAVES = Argument(
    "enclaves",
    TEXT,
    "SROS2: path of enclaves, of which each process has the one named as its executable: /cacheinf_ros for those of "
    "config/security/policy.xml; not given: none is named",
    is_parameter=False,
)
USE_SIM_TIME = Argument("use_sim_time", FLAG, "take the time from /clock")
(AUTOSTART,) = _declared(_NODES, "LifecycleConfig", "autostart")
COMMON = (NAMESPACE, PARAMS_FILE, LOG_LEVEL, ENCLAVES, USE_SIM_TIME, AUTOSTART)

CAMERA = _declared(_NODES, "ImageConfig", "image_topic", "image_transport", "image_reliability", "image_values")
LIDAR = _declared(_NODES, "ImageConfig", "voxels")
(_RIGHT_TOPIC,) = _declared(_NODES, "RightImageConfig", "right.image_topic")
RIGHT_CAMERA = (
    replace(_RIGHT_TOPIC, otherwise="side_by_side, which shows them beside those of image_topic, is not started"),
    *_declared(_NODES, "RightImageConfig", "right.image_transport", "right.image_values"),
)
MATCHING = _declared("matching/matching_config.py", "MatchingConfig", "matcher", "threshold", "block_size", "expiry")
MODEL = _declared(_NODES, "ModelConfig", "model", "weights", "input_size")
ENGINE = _declared(
    "engine/engine_config.py", "EngineConfig", "mode", "max_error", "precision", "dense_precision", "device", "threads"
)
RESULTS = _declared(_NODES, "ResultConfig", "outputs")
(USE_SERVER,) = _declared(_NODES, "UseServerConfig", "server.use")
START_SERVER = replace(
    USE_SERVER,
    description="start a server too, and share frames with it; a server.use of params_file has frames shared, but "
    "starts no server",
)
(OFFLOAD_POLICY,) = _declared(_NODES, "SharingConfig", "server.policy")
SINGLE_PROCESS = Argument(
    "single_process", FLAG, "matching and inference in one process, or in two", "true", is_parameter=False
)
IMAGE_TOPICS = Argument(
    "image_topics",
    TEXTS,
    "topics of several cameras, in place of image_topic: a node for each, in its topic's namespace, all in one process",
    is_parameter=False,
)
CATALOGS = _declared(_CATALOGS, "CatalogFoldersConfig", "catalogs")

ROBOT = (
    *CAMERA,
    *RIGHT_CAMERA,
    *LIDAR,
    IMAGE_TOPICS,
    *MODEL,
    *MATCHING,
    *ENGINE,
    *RESULTS,
    OFFLOAD_POLICY,
    SINGLE_PROCESS,
    *COMMON,
)
SERVER = (*MODEL, *MATCHING, *ENGINE, *CATALOGS, *COMMON)
CATALOG = (
    *CAMERA,
    *CATALOGS,
    *_declared(_CATALOGS, "CatalogConfig", "rates"),
    *_declared(_CATALOGS, "CatalogBudgetConfig", "energy_budget_j", "cloud_budget", "budget_horizon_s"),
    *_declared(_CATALOGS, "CatalogConfig", "device_memory_mb", "policy", "server.use"),
    *MATCHING,
    *ENGINE,
    OFFLOAD_POLICY,
    Argument("server", FLAG, "start the server on this machine too, and use it", "false", is_parameter=False),
    *COMMON,
)
REPLAY = (
    *_declared(_NODES, "ReplayConfig", "source", "rate", "loop", "publish_clock", "image_topic", "image_transport"),
    NAMESPACE,
    PARAMS_FILE,
    LOG_LEVEL,
    ENCLAVES,
)


class Given:
    """The values of a launch file's arguments: what the user gave, and the defaults."""

    def __init__(self, arguments: Iterable[Argument], configurations: Mapping[str, str]) -> None:
        """Convert the values; raises :class:`ConfigError` where one cannot be converted."""
        texts = {argument: configurations.get(argument.name, argument.default) for argument in arguments}
        self._values = {argument.name: argument.value(text) for argument, text in texts.items() if text}
        self._parameters = {argument.name for argument in texts if argument.is_parameter}

    @property
    def parameters(self) -> dict[str, Value]:
        """The parameters that the nodes are given; they override those in the parameters file."""
        return {name: value for name, value in self._values.items() if name in self._parameters}

    def text(self, name: str) -> str:
        """Return an argument as text; empty where nothing was given."""
        return str(self._values.get(name, ""))

    def texts(self, name: str) -> list[str]:
        """Return an argument as a list of texts; empty where nothing was given."""
        value = self._values.get(name, [])
        return [str(each) for each in value] if isinstance(value, list) else [str(value)]

    def flag(self, name: str) -> bool:
        """Return an argument as a flag; False where nothing was given."""
        return bool(self._values.get(name, False))


def refuse_unknown(arguments: Iterable[Argument], given: Sequence[str]) -> None:
    """Refuse arguments that do not exist, which ``ros2 launch`` would ignore silently.

    Args:
        arguments: arguments that the launch file has.
        given: words of the command line, such as ``name:=value``.

    Raises:
        ConfigError: an argument does not exist; the message names it, and those that exist.
    """
    known = [argument.name for argument in arguments]
    names = [word.partition(":=")[0] for word in given]
    complaints = [_complaint(name, known) for name in names if name not in known and name not in _LAUNCHS_OWN]
    if complaints:
        raise ConfigError(f"{', '.join(complaints)}. The arguments are: {', '.join(sorted(known))}")


def say_former(arguments: Iterable[Argument], configurations: Iterable[str]) -> list[str]:
    """Say, one line each, what became of arguments that another launch file still gives under their former names."""
    known = {argument.name for argument in arguments}
    return [f"launch argument {what_became_of(name)}" for name in configurations if RENAMED.get(name) in known]


def camera_namespaces(topics: Sequence[str]) -> list[str]:
    """Return a namespace for each camera's node, each another one: that of its topic, or the topic itself.

    The topic is taken where its namespace is empty, or where two cameras have the same one. Where even so two would
    have the same, as of /image and /image/left, all cameras take their topics.

    Raises:
        ConfigError: a topic is given twice, or is not a full name.
    """
    if len(set(topics)) < len(topics) or not all(topic.startswith("/") for topic in topics):
        raise ConfigError(f"cameras {', '.join(topics)}: give full names, such as /front/image_raw, each once")
    own = [topic.rpartition("/")[0] for topic in topics]
    spaces = [space if space and own.count(space) == 1 else topic for space, topic in zip(own, topics, strict=True)]
    return spaces if len(set(spaces)) == len(spaces) else list(topics)


def _complaint(name: str, known: Sequence[str]) -> str:
    became = what_became_of(name)
    return f"launch argument {became}" if became else f"unknown launch argument {name!r}{meant_by(name, known)}"


def is_launched_itself(file: Path, command_line: Sequence[str]) -> bool:
    """Tell whether ``ros2 launch`` was told to run this launch file, and not another one that includes it."""
    by_path = any(Path(word).is_file() and file.samefile(word) for word in command_line if word.endswith(file.name))
    return by_path or {PACKAGE, file.name} <= set(command_line)
