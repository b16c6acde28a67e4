# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Prediction of what a variant costs in each place (energy, money, time, memory) from its measurements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cacheinf_ros.catalog.variant import Cost, Place
from cacheinf_ros.config import Config, parameter
from cacheinf_ros.energy import PowerModel
from cacheinf_ros.offload.planning import Conditions, Integers, Link, Numbers, Timeline, Times, Workload, dnn_surgery


class PriceConfig(Config):
    """What is modelled rather than measured: the server, the link, the storage, and the cloud's prices."""

    server_speedup: float = parameter(
        4.0, "times that the server is faster than this machine, modelled; 1: it is this machine", low=0.01, high=1e4
    )
    link_mbit_s: float = parameter(48.0, "of the link to the server, 10**6 bits per second", low=0.01, high=1e6)
    link_delay_ms: float = parameter(1.0, "of the link to the server, ms", low=0.0, high=1e5)
    storage_mb_s: float = parameter(40.0, "rate at which weights are read, 10**6 bytes per second", low=0.01, high=1e6)
    price_server_s: float = parameter(
        1.5e-4, "dollars per second of the server; the default is about a small GPU machine's", low=0.0, high=1e3
    )
    price_mb: float = parameter(
        9e-5,
        "dollars per 10**6 bytes to and from the cloud; the default is about what clouds charge",
        low=0.0,
        high=1e3,
    )

    def dollars(self, server_ms: float, sent_bytes: float) -> float:
        """Return the cloud's charge, dollars, for server time and for bytes sent to and from it."""
        return self.price_server_s * server_ms / 1e3 + self.price_mb * sent_bytes / 1e6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measured:
    """What an architecture takes on this machine, in float32 or in int8, whatever its weights are.

    Attributes:
        device_ms: median time of a dense frame in the engine.
        prepare_ms: time of loading, from the file in memory to an engine that is ready; the fastest of several runs.
        kept_bytes: size of that file, with float32 weights; 0: the graph cannot be kept, and is exported anew.
        memory_bytes: parameters as they are computed with, and all other tensors of a dense frame in one arena.
        whole_bytes: the memory with every feature map kept, as a frame that is partitioned with a server needs it.
        workload: the operators.
        took: float64 [operators, points], milliseconds of each operator; see
            :func:`cacheinf_ros.offload.planning.profile`.
    """

    device_ms: float
    prepare_ms: float
    kept_bytes: int
    memory_bytes: int
    whole_bytes: int
    workload: Workload
    took: Numbers


def costs_of(
    measured: Measured, stored_bytes: int, pixel_bytes: float, prices: PriceConfig, power: PowerModel
) -> dict[Place, Cost]:
    """Predict the cost in each place; :attr:`Place.SPLIT` is absent where no cut between operators beats both others.

    Args:
        stored_bytes: size of the variant's weights in storage.
        pixel_bytes: size of an input pixel on the way to the cloud.
    """
    conditions = _conditions(measured, pixel_bytes, prices)
    read_ms = (measured.kept_bytes or stored_bytes) / prices.storage_mb_s / 1e3
    load_ms = read_ms + measured.prepare_ms
    load_j = power.joules(load_ms, load_ms, 0.0, 0.0)
    # the cloud's storage is assumed to be no faster than the device's
    remote_load_ms = read_ms + measured.prepare_ms / prices.server_speedup
    load_money = prices.dollars(remote_load_ms, 0)
    local = measured.device_ms
    found = {
        Place.DEVICE: Cost(
            energy_j=power.joules(local, local, 0.0, 0.0), latency_ms=local, memory_bytes=measured.memory_bytes,
            load_energy_j=load_j, load_ms=load_ms,
        )
    }  # fmt: skip
    timeline = Timeline(measured.workload, conditions)
    cut = dnn_surgery(measured.workload, conditions)
    if 0 < np.count_nonzero(cut) < len(cut):
        found[Place.SPLIT] = _cost(
            timeline.times(cut), conditions, prices, power, memory_bytes=measured.whole_bytes, load_energy_j=load_j,
            load_money=load_money, load_ms=max(load_ms, remote_load_ms),
        )  # fmt: skip
    nothing: Integers = np.zeros_like(cut)
    found[Place.CLOUD] = _cost(
        timeline.times(nothing), conditions, prices, power, load_money=load_money, load_ms=remote_load_ms
    )
    return found


def _conditions(measured: Measured, pixel_bytes: float, prices: PriceConfig) -> Conditions:
    """Describe dense frames.

    Time that no operator accounts for is spread over all, so that the operators together take a measured frame's time.
    """
    took = measured.took * (measured.device_ms / measured.took[:, -1].sum())
    everything = np.ones(len(measured.workload.heights))
    return Conditions(
        link=Link(mbit_s=prices.link_mbit_s, delay_ms=prices.link_delay_ms), robot_ms=took,
        server_ms=took / prices.server_speedup, active_robot=everything, active_server=everything,
        input_pixel_bytes=pixel_bytes,
    )  # fmt: skip


def _cost(
    times: Times,
    conditions: Conditions,
    prices: PriceConfig,
    power: PowerModel,
    *,
    load_money: float,
    load_ms: float,
    memory_bytes: int = 0,
    load_energy_j: float = 0.0,
) -> Cost:
    rate = conditions.link.bytes_per_ms
    money = prices.dollars(times.server_busy, times.sent + times.received)
    return Cost(
        energy_j=power.joules(times.end, times.robot_busy, times.sent / rate, times.received / rate), money=money,
        latency_ms=times.end, memory_bytes=memory_bytes, load_energy_j=load_energy_j, load_money=load_money,
        load_ms=load_ms,
    )  # fmt: skip
