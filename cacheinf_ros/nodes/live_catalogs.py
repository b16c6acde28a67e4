# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Models that applications register or withdraw while a node runs, by changing the parameter ``catalogs``."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rclpy.clock import Clock, ClockType
from rclpy.parameter import Parameter

from cacheinf_ros.catalog import CatalogFolder, prepare_catalogs
from cacheinf_ros.catalog.serving import CatalogConfig, CatalogFoldersConfig
from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.engine.quantisation import computes_int8
from cacheinf_ros.errors import CacheinfError, ConfigError
from cacheinf_ros.low_priority import lower_priority
from cacheinf_ros.nodes.frame_node import FrameNode
from cacheinf_ros.nodes.parameters import verdict

_PERIOD_S = 0.1
_NAME = "catalogs"

Folders = tuple[CatalogFolder, ...]


class LiveCatalogs:
    """Follows the parameter ``catalogs`` while frames are served.

    Catalogs that cannot be read are refused; all others are prepared in the background, then handed over. Must be used
    by the executor's thread.
    """

    def __init__(
        self,
        node: FrameNode,
        config: type[CatalogFoldersConfig],
        take: Callable[[Sequence[CatalogFolder]], bool],
        go_on: Callable[[], bool] = lambda: True,
    ) -> None:
        """Start from the catalogs that the node has read.

        Args:
            node: the node that has the parameter.
            config: the configuration class that has the parameter.
            take: makes the node use other catalogs from now on; False: not yet, it is to be called again. Where it
                raises :class:`CacheinfError`, the node goes on with the former ones.
            go_on: is called where ``take`` was to be called again, but others are named by then: makes the node go on
                with those in use; False: not yet.
        """
        self._node, self._config, self._take, self._go_on = node, config, take, go_on
        self._taken = self._named
        self._prepared: tuple[tuple[str, ...], Folders | None] | None = None  # None: cannot be used any more
        self._preparing: threading.Thread | None = None
        self._failed: tuple[str, ...] | None = None  # not tried again until they are named again
        self._is_awaited = False  # whether the node is about to take what is prepared
        self._has_complained = self._is_closed = False
        self._timer = node.create_timer(_PERIOD_S, self._look, clock=Clock(clock_type=ClockType.STEADY_TIME))
        node.add_on_set_parameters_callback(self._check)

    def close(self) -> None:
        """Stop following the parameter; catalogs still being prepared are not used."""
        self._node.remove_on_set_parameters_callback(self._check)
        self._timer.cancel()
        self._is_closed = True
        self._node.health.erase(_NAME)

    @property
    def _named(self) -> tuple[str, ...]:
        return self._node.parameters.get(self._config).catalogs

    def _check(self, parameters: list[Parameter[Any]]) -> SetParametersResult:
        changed = {each.name: each.value for each in parameters if each.name in (_NAME, "rates")}
        if _NAME in changed:
            self._failed = None
        return verdict(lambda: self._read(changed, compares=False) if _NAME in changed else None)

    def _read(self, changed: dict[str, Any], *, compares: bool) -> Folders:
        """Read the catalogs that changed parameters would name; raises :class:`ConfigError` where they cannot be used.

        Args:
            changed: the changed parameters, by name.
            compares: whether to check that the files are those that were written; not while frames wait for this
                thread.
        """
        config = self._node.parameters.get(self._config)
        try:
            config = config.changed(
                **{name: value for name, value in changed.items() if name in type(config).model_fields}
            )
            if not isinstance(config, CatalogConfig):
                return config.read(compares=compares)
            int8 = computes_int8(self._node.parameters.get(EngineConfig).device)
            folders = config.read(int8=int8, compares=compares)
            config.demands(folders)
        except CacheinfError as error:
            raise ConfigError(str(error)) from None
        return folders

    def _look(self) -> None:
        """Start to prepare catalogs that have been named, or hand over those that are prepared."""
        if self._is_awaited and (self._prepared is None or self._prepared[0] != self._named):
            if not self._go_on():
                return
            self._is_awaited = False
        if self._preparing is not None or self._named == self._failed:
            return
        if self._named == self._taken:
            self._failed = self._prepared = None
            if self._has_complained:  # the catalogs in use are named again
                self._has_complained = False
                self._node.health.erase(_NAME)
        elif self._prepared is None or self._prepared[0] != self._named:
            self._start()
        else:
            self._hand_over(*self._prepared)

    def _hand_over(self, named: tuple[str, ...], folders: Folders | None) -> None:
        """Have the node take what is prepared; what it cannot use is not tried again until it is named again."""
        try:
            self._is_awaited = folders is not None and not self._take(folders)
        except Exception as error:  # whatever it is, trying again would drop what is loaded five times a second
            self._is_awaited, folders = False, None
            if not isinstance(error, CacheinfError):
                self._node.get_logger().error(traceback.format_exc())
            self._complain(named, error)
        if self._is_awaited:
            return
        self._prepared = None
        if folders is None:
            self._failed = named
        else:
            self._taken = named
            self._say(f"{len(folders)} catalogs are in use now: {', '.join(folder.file.name for folder in folders)}")

    def _start(self) -> None:
        named = self._named
        self._preparing = threading.Thread(target=self._prepare, args=(named,), name=_NAME, daemon=True)
        self._preparing.start()

    def _prepare(self, named: tuple[str, ...]) -> None:
        """Read and prepare catalogs; called in a thread of its own."""
        log = self._node.get_logger()
        folders: Folders | None = None
        try:
            lower_priority()
            folders = self._read({_NAME: named}, compares=True)
            if self._node.parameters.get(self._config).loads_variants:
                prepare_catalogs(folders, log.info, log.error)
        except Exception as error:
            folders = None
            self._complain(named, error)
        self._prepared, self._preparing = (named, folders), None

    def _say(self, text: str) -> None:
        self._node.get_logger().info(text)
        self._has_complained = False
        self._node.health.erase(_NAME)

    def _complain(self, named: Iterable[str], error: Exception) -> None:
        if self._is_closed:
            return
        text = f"{', '.join(named)} cannot be used, the former ones go on: {' '.join(str(error).split())}"
        self._has_complained = True
        self._node.get_logger().error(text)
        self._node.health.note(_NAME, text)
