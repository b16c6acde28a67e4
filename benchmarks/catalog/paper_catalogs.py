# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Catalogs for ``cacheinf bench catalog``, shaped after those of the MCDNN paper (its table 2 and section 6.2).

They are illustrations, not measurements. The sizes, operations and accuracies of three kinds of networks (scenes as by
AlexNet, faces as by DeepFace, objects as by VGG), and the shares that remain after factorisation and changes of the
architecture, are round numbers of the order that the paper's authors publish (github.com/haneul/mcdnn). A variant's
costs are computed from these by :class:`Machines`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cacheinf_ros.catalog.variant import Catalog, Cost, Place, Variant
from cacheinf_ros.energy.power_model import PowerModel

_MB = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """The model that turns operations and bytes into joules and dollars.

    Attributes:
        device_gflop_s, cloud_gflop_s: the throughput that the processors reach.
        cloud_call_ms: what a call of the cloud takes in addition to the request's operations.
        cloud_dollars_ms: what a millisecond of the cloud's processor costs (the authors': 1.8e-7).
        load_j_mb: energy for loading, per 10**6 bytes (the authors': 13 J for a network of 0.39 GB, of which 4 J are
            fixed).
        load_j: energy for loading a network of any size.
        power: the power of the device while it computes.
    """

    device_gflop_s: float = 15.0
    cloud_gflop_s: float = 1000.0
    cloud_call_ms: float = 4.0
    cloud_dollars_ms: float = 1.8e-7
    load_j_mb: float = 0.025
    load_j: float = 4.0
    power: PowerModel = field(default_factory=PowerModel)

    def compute_ms(self, gflop: float) -> float:
        """Return the time (ms) that the device takes for so many GFLOP."""
        return 1e3 * gflop / self.device_gflop_s

    def cloud_ms(self, gflop: float) -> float:
        """Return the time (ms) that the cloud takes for so many GFLOP."""
        return self.cloud_call_ms + 1e3 * gflop / self.cloud_gflop_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A kind of network, and its smaller variants.

    Attributes:
        gflop, mb, accuracy: the operations, size and accuracy of the original.
        first_gflop, first_mb: the convolutions' shares of these; they are the device's part where the network is split.
        variants: (share of the operations, share of the bytes, accuracy) of each variant, by technique.
    """

    gflop: float
    mb: float
    accuracy: float
    first_gflop: float
    first_mb: float
    variants: Mapping[str, Sequence[tuple[float, float, float]]]

    def catalog(self, model: str, machines: Machines) -> Catalog:
        """Make up the catalog of a model of this kind."""
        groups = {"": ((1.0, 1.0, self.accuracy),), **self.variants}
        everything = [(technique, *shares) for technique, group in groups.items() for shares in group]
        return Catalog(
            model=model,
            variants=tuple(
                Variant(
                    name=f"v{i}_{technique.replace(' ', '_') or 'original'}",
                    accuracy=accuracy,
                    technique=technique,
                    costs=self._costs(self.gflop * compute, self.mb * size, machines),
                )
                for i, (technique, compute, size, accuracy) in enumerate(everything)
            ),
        )

    def _costs(self, gflop: float, mb: float, machines: Machines) -> dict[Place, Cost]:
        first, rest = self.first_gflop * gflop, (1 - self.first_gflop) * gflop
        return {
            Place.DEVICE: _on_device(gflop, mb, machines),
            Place.SPLIT: _in_cloud(rest, machines, _on_device(first, self.first_mb * mb, machines)),
            Place.CLOUD: _in_cloud(gflop, machines, Cost()),
        }


def _on_device(gflop: float, mb: float, machines: Machines) -> Cost:
    took_ms = machines.compute_ms(gflop)
    return Cost(
        energy_j=machines.power.joules(0.0, took_ms, 0.0, 0.0),  # what is drawn at rest is not charged to a request
        latency_ms=took_ms,
        memory_bytes=round(mb * _MB),
        load_energy_j=(load_j := machines.load_j + machines.load_j_mb * mb),
        load_ms=1e3 * load_j / machines.power.compute_w,
    )


def _in_cloud(gflop: float, machines: Machines, device: Cost) -> Cost:
    """Return the costs of running in the cloud after what the device does."""
    took_ms = machines.cloud_ms(gflop)
    return Cost(
        energy_j=device.energy_j,
        money=took_ms * machines.cloud_dollars_ms,
        latency_ms=device.latency_ms + took_ms,
        memory_bytes=device.memory_bytes,
        load_energy_j=device.load_energy_j,
        load_ms=device.load_ms,
    )


SCENES = Network(
    gflop=1.4, mb=240, accuracy=0.516, first_gflop=0.9, first_mb=0.05,
    variants={
        "dense factorised": ((0.94, 0.40, 0.515), (0.92, 0.22, 0.507), (0.91, 0.12, 0.483)),
        "all factorised": ((0.55, 0.38, 0.500), (0.35, 0.18, 0.478)),
        "architecture": ((0.15, 0.08, 0.440), (0.06, 0.03, 0.390)),
    },
)  # fmt: skip
FACES = Network(
    gflop=2.0, mb=390, accuracy=0.757, first_gflop=0.9, first_mb=0.3,
    variants={
        "dense factorised": ((0.97, 0.86, 0.766),),
        "architecture": (
            (1.00, 0.90, 0.786), (0.60, 0.40, 0.762), (0.24, 0.19, 0.756), (0.20, 0.10, 0.692), (0.12, 0.02, 0.667),
        ),
    },
)  # fmt: skip
OBJECTS = Network(
    gflop=31.0, mb=530, accuracy=0.694, first_gflop=0.95, first_mb=0.11,
    variants={
        "dense factorised": ((0.99, 0.34, 0.694), (0.99, 0.17, 0.688)),
        "all factorised": ((0.50, 0.30, 0.685), (0.25, 0.16, 0.660), (0.12, 0.10, 0.610)),
        "architecture": ((0.05, 0.08, 0.540), (0.02, 0.05, 0.470)),
    },
)  # fmt: skip


def paper_catalogs(machines: Machines | None = None) -> tuple[Catalog, ...]:
    """Build the catalogs of one robot's five models, whose originals have 1.9 GB in all."""
    machines = machines or Machines()
    kinds = (("scene", SCENES), ("face", FACES), ("age", FACES), ("gender", FACES), ("object", OBJECTS))
    return tuple(network.catalog(model, machines) for model, network in kinds)
