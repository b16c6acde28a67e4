# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench offload``: measures every policy's latency over a link of limited bandwidth, with real nodes.

The robot's node has a fraction of a processor, the server's node has the rest. With root they run in network namespaces
with a shaped link between them, otherwise side by side, where each delays what it sends. The policies take turns, in
both orders: on a shared machine the time for the same work changes by a tenth within minutes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.offload.metered_play import MeteredPlay, described
from benchmarks.offload.pair import Pair, open_pair
from benchmarks.offload.setting import Setting, System
from benchmarks.offload.tally import Tally
from benchmarks.offload.testbed import Testbed, open_testbed
from cacheinf_ros.bench.output_errors import ErrorScale
from cacheinf_ros.bench.shots import Image, varied_images
from cacheinf_ros.config import parse_size
from cacheinf_ros.energy import EnergyMeter, NoMeter, find_meter
from cacheinf_ros.engine import Engine, EngineConfig, Mode
from cacheinf_ros.graph import load_model
from cacheinf_ros.harness.domains import reserved_domain
from cacheinf_ros.harness.playback import FIRST_STAMP_NS
from cacheinf_ros.nodes.recorder import Recorded
from cacheinf_ros.offload.protocol.limited_link import Trace
from cacheinf_ros.offload_policy import OffloadPolicy
from cacheinf_ros.sources import open_source

WARM = 10
"""Frames at the start of each play that do not count: caches are filled, and the link is measured."""
_UDP = {"FASTDDS_BUILTIN_TRANSPORTS": "UDPv4", "ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}
Outputs = list[NDArray[Any]]


class Truth:
    """The outputs of dense execution for the frames, on this machine."""

    def __init__(self, setting: Setting) -> None:
        weights = Path(setting.weights) if setting.weights else None
        model = load_model(setting.model, weights=weights, input_size=parse_size(setting.size))
        engine = Engine(model, EngineConfig(mode=Mode.DENSE))
        frames = list(islice(open_source(setting.source), setting.frames + WARM))
        self._outputs = {FIRST_STAMP_NS + frame.stamp_ns: _outputs(engine, frame.image) for frame in frames}
        self._scale = ErrorScale(_outputs(engine, image) for image in varied_images([each.image for each in frames]))

    def error(self, results: Iterable[Recorded]) -> dict[str, float] | None:
        """Return the mean and largest error of the results for these frames, without those that failed.

        None where there are none, or outputs were too large to be sent.
        """
        pairs = [(list(each.outputs.values()), self._outputs[each.stamp_ns]) for each in results if not each.error]
        if not pairs or any(len(ours) != len(exact) for ours, exact in pairs):
            return None
        errors = [self._scale.error(ours, exact) for ours, exact in pairs]
        return {"mean": float(np.mean(errors)), "max": float(np.max(errors))}


def _outputs(engine: Engine, image: Image) -> Outputs:
    return [value.copy() for value in engine.run(image, None).outputs.values()]


def run_offload_benchmark(
    setting: Setting, links: Mapping[str, Trace], progress: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """Measure all policies over all links, by the links' names: a number of Mbit/s, or a trace's name."""
    meter = find_meter()
    progress("dense reference")
    truth = Truth(setting)
    found: dict[str, dict[str, Tally]] = {name: {} for name in links}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cacheinf_offload")))
        testbed = stack.enter_context(open_testbed(setting.robot_cores))
        domain = stack.enter_context(reserved_domain())
        os.environ.update(_UDP)
        for number, group in enumerate(testbed.together(list(links))):
            progress("starting the nodes")
            limited = testbed.parameters(group[0])
            with open_pair(setting, testbed, folder / str(number), domain, limited) as pair:
                for name in group:
                    is_first = name == next(iter(links))
                    # the link does not matter where no server is used
                    systems = {
                        name: system
                        for name, system in setting.systems.items()
                        if is_first or system.policy is not OffloadPolicy.LOCAL
                    }
                    link = name, links[name]
                    found[name] = _take_turns(pair, setting, testbed, truth, systems, link, meter, progress)
    first = next(iter(found.values()))
    return {
        "model": setting.model,
        "weights": setting.weights,
        "size": setting.size,
        "source": setting.source,
        "robot_cores": setting.robot_cores,
        "frames": setting.frames,
        "warm": WARM,
        "rounds": setting.rounds,
        "shaping": testbed.shaping,
        "processor_limit": testbed.processor_limit,
        "wire_image": setting.wire_image.value,
        "threshold": setting.threshold,
        "energy": described(meter),
        "bandwidth": {
            name: {
                "mbit_s": float(links[name].mbit_s.mean()),
                "systems": {
                    system: (tallies.get(system) or first[system]).figures(over_time=not links[name].is_constant)
                    for system in setting.systems
                },
            }
            for name, tallies in found.items()
        },
    }


def _take_turns(
    pair: Pair,
    setting: Setting,
    testbed: Testbed,
    truth: Truth,
    systems: Mapping[str, System],
    link: tuple[str, Trace],
    meter: EnergyMeter | NoMeter,
    progress: Callable[[str], None],
) -> dict[str, Tally]:
    name, trace = link
    tallies = {system: Tally(WARM) for system in systems}
    for number in range(setting.rounds):
        for system in systems if number % 2 == 0 else reversed(list(systems)):
            progress(f"{name}: {system}, round {number + 1} of {setting.rounds}")
            pair.use(systems[system])
            with testbed.link(trace):
                metered = MeteredPlay(meter)
                played, counts = pair.play(setting.source, setting.frames + WARM, metered.look)
            error = truth.error(played.results)
            tallies[system].add(played, counts, error, metered.joules_per_frame(played.results, WARM))
    return tallies
