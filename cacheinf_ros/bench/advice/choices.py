# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The ways that a user can choose from, and the nodes' parameters for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from cacheinf_ros.bench.advice.target import Target
from cacheinf_ros.bench.loss import DENSE
from cacheinf_ros.bench.own_way import OwnSettings
from cacheinf_ros.bench.server_way import SERVER
from cacheinf_ros.bench.stream_plan import BOUNDED
from cacheinf_ros.config import Value
from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.matching import IDENTICAL, MatcherName, MatchingConfig
from cacheinf_ros.mode import Mode
from cacheinf_ros.offload_policy import OffloadPolicy

DROPPED_TOPIC = "camera/image_drop"
"""The topic of the remaining frames when another node drops the rest."""
OFF = "off"
SKIPS = tuple(range(2, 9))
"""The skips that are tried: one of so many frames is computed. All are measured, as measuring a skip costs nothing."""


class Kind(Enum):
    """What saves the time in a way of running the model."""

    DENSE = "dense"
    """Nothing saves time: every frame is computed completely, in float32."""
    PRECISION = "lower precision"
    """Every frame is computed completely, in a lower precision."""
    SKIPPING = "frame skipping"
    """Only some frames are computed; the others get the last answer."""
    SERVER = "server"
    """Every frame is sent to a faster machine, and computed completely there."""
    CACHING = "caching"
    """Only what has changed is computed in a frame, or its answer is held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One way of running the model.

    Attributes:
        name: its name among the ways that are measured.
        title: what it does, in plain words.
        kind: what saves the time.
        parameters: the nodes' parameters, without those of the model; None: the nodes have no such mode.
        beside: a command that must run beside the launch file; empty: none.
    """

    name: str
    title: str
    kind: Kind
    parameters: Mapping[str, Value] | None = None
    beside: str = ""


def choices_for(
    dense_engine: str,
    lossy: Iterable[str],
    own: Mapping[str, OwnSettings],
    *,
    skips: Iterable[int] = SKIPS,
    has_server: bool = False,
) -> list[Choice]:
    """List the ways, the plainest first.

    Args:
        dense_engine: the name of the fastest one in float32, which may be :data:`OFF`.
        lossy: engines of lower precision that were measured.
        own: modes of this package that were measured.
        skips: the skips, each a way: one of so many frames is computed.
        has_server: whether sending frames to a server was measured, too.
    """
    densely = {**_parameters(own[BOUNDED]), "max_loss": 0.0}
    engine = "this package's own kernels" if dense_engine == OFF else dense_engine
    title = f"every frame, dense, on the fastest engine ({engine})"
    ways = [Choice(name=DENSE, title=title, kind=Kind.DENSE, parameters=densely)]
    ways += [Choice(name=name, title=f"every frame, dense, {name}", kind=Kind.PRECISION) for name in lossy]
    ways += [
        Choice(
            name=f"every {every}",
            title=f"dense on one of {every} frames; else the last answer",
            kind=Kind.SKIPPING,
            parameters={**densely, "image_topic": DROPPED_TOPIC},
            beside=f"ros2 run topic_tools drop camera/image {every - 1} {every} {DROPPED_TOPIC}",
        )
        for every in skips
    ]
    if has_server:
        remote: dict[str, Value] = {"server.use": True, "server.policy": OffloadPolicy.REMOTE_JPEG.value}
        ways.append(
            Choice(
                name=SERVER,
                title="every frame, dense, by the server, sent as JPEG",
                kind=Kind.SERVER,
                parameters={**_parameters(own[OFF]), **remote},
            )
        )
    return ways + [_own(name, settings) for name, settings in own.items()]


def own_settings(target: Target, config: EngineConfig) -> dict[str, OwnSettings]:
    """Return the modes of this package to measure, by name: bounded with three promises, exact, and dense."""
    identical = MatchingConfig(matcher=MatcherName.IDENTITY, threshold=IDENTICAL)
    low, asked, high = target.promises
    bounded = {BOUNDED: asked, f"{BOUNDED} {low:g}": low, f"{BOUNDED} {high:g}": high}
    return {
        **{
            name: OwnSettings(config=config.changed(mode=Mode.BOUNDED, max_loss=promise))
            for name, promise in bounded.items()
        },
        Mode.EXACT.value: OwnSettings(config=config.changed(mode=Mode.EXACT), matching=identical),
        OFF: OwnSettings(config=config.changed(mode=Mode.DENSE), matching=identical),
    }


def _own(name: str, settings: OwnSettings) -> Choice:
    mode, parameters = settings.config.mode, _parameters(settings)
    if mode is Mode.BOUNDED:
        title = f"bounded mode, max_loss {settings.config.max_loss:g}"
        return Choice(name=name, title=title, kind=Kind.CACHING, parameters=parameters)
    if mode is Mode.EXACT:
        title = "exact mode: reuses only what is equal in every byte"
        return Choice(name=name, title=title, kind=Kind.CACHING, parameters=parameters)
    title = "off: mode dense, every frame by this package's own kernels, matched for the modes that it may change to"
    return Choice(name=name, title=title, kind=Kind.DENSE, parameters=parameters)


def _parameters(settings: OwnSettings) -> dict[str, Value]:
    """Return the nodes' parameters: the mode, and all that differ from their defaults."""
    values: dict[str, Value] = {}
    for config in (settings.config, settings.matching):
        for each in config.declarations():
            value = getattr(config, each.field)
            if value != each.info.default or each.name == "mode":
                values[each.name] = value.value if isinstance(value, Enum) else value
    if settings.config.mode is Mode.BOUNDED:
        values["max_loss"] = settings.config.max_loss
    return values
