# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Real energy meters, where the robot's computer has one: Jetson's INA3221, or RAPL of Intel and AMD processors.

Both are files of Linux: Documentation/hwmon/ina3221.rst and Documentation/power/powercap/powercap.rst of the kernel.
The methods of a meter raise OSError or ValueError where a file is missing, may not be read, or holds no number.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_RAPL_ZONE = re.compile(r"intel-rapl:\d+")  # intel-rapl:0:1 is a part of 0; AMD's have the same name
_CHANNELS = (1, 2, 3)  # those from 4 on are shunt voltages, and sums
_TOTAL_RAIL = "VDD_IN"  # what comes into the module: the other rails are fed by it
_NOT_CONNECTED = "NC"


class EnergyMeter(Protocol):
    """Something that counts joules."""

    name: str
    """The meter and what it measures, for the log."""

    def joules(self) -> float:
        """Return the joules since the meter was opened."""
        ...


@dataclass(frozen=True, slots=True)
class NoMeter:
    """Says that there is no meter, and why."""

    reason: str


class Rapl:
    """The processor packages' own counters; memory, graphics cards and the rest of the robot are not in them."""

    def __init__(self, zones: Sequence[Path]) -> None:
        """Open the folders of package domains, such as ``/sys/class/powercap/intel-rapl:0``."""
        self.name = "RAPL " + " + ".join(_text(zone / "name") for zone in zones)
        self._counters = [_Counter(zone) for zone in zones]

    def joules(self) -> float:
        """Return the joules of all packages since the meter was opened."""
        return sum(counter.microjoules() for counter in self._counters) / 1e6


class _Counter:
    """A counter that wraps around after some minutes; it must be read more often than that."""

    def __init__(self, zone: Path) -> None:
        self._file = zone / "energy_uj"
        self._range = _number(zone / "max_energy_range_uj")
        if self._range <= 0:
            raise ValueError(f"{zone / 'max_energy_range_uj'}: {self._range} is no range of a counter")
        self._last = _number(self._file)
        self._counted = 0

    def microjoules(self) -> int:
        now = _number(self._file)
        self._counted += (now - self._last) % self._range
        self._last = now
        return self._counted


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rail:
    label: str
    millivolts: Path
    milliamperes: Path

    def watts(self) -> float:
        return _number(self.millivolts) * _number(self.milliamperes) / 1e6


class Ina3221:
    """Jetson's power monitor; it measures watts, so that its joules are the better the more often it is read."""

    def __init__(self, chips: Sequence[Path], clock: Callable[[], float] = time.monotonic) -> None:
        """Open the hwmon folders of all chips; ``clock`` returns seconds."""
        rails = [rail for chip in chips for rail in _rails(chip)]
        if not rails:
            raise ValueError(f"INA3221 without a rail that is measured: {', '.join(map(str, chips))}")
        self._rails = [rail for rail in rails if rail.label == _TOTAL_RAIL] or rails
        self.name = "INA3221 " + " + ".join(rail.label for rail in self._rails)
        self._clock = clock
        self._joules = 0.0
        self._last_s, self._last_w = clock(), self._watts()

    def joules(self) -> float:
        """Read the watts, and return the joules by the trapezoidal rule over all readings so far."""
        now_s, now_w = self._clock(), self._watts()
        self._joules += (now_s - self._last_s) * (now_w + self._last_w) / 2
        self._last_s, self._last_w = now_s, now_w
        return self._joules

    def _watts(self) -> float:
        return sum(rail.watts() for rail in self._rails)


def reading(meter: EnergyMeter | None) -> float | None:
    """Read a meter's joules; None: there is none, or a busy bus keeps it from being read, and the model has to do."""
    try:
        return None if meter is None else meter.joules()
    except (OSError, ValueError):
        return None


def find_meter(root: Path = Path("/sys")) -> EnergyMeter | NoMeter:
    """Return Jetson's meter, or else RAPL's, or why there is neither; ``root`` is where sysfs is mounted."""
    chips = sorted((root / "bus/i2c/drivers").glob("ina3221*/*/hwmon/hwmon*"))
    zones = [zone for zone in sorted((root / "class/powercap").glob("intel-rapl:*")) if _RAPL_ZONE.fullmatch(zone.name)]
    try:
        if chips:
            return Ina3221(chips)
        # a zone beside the packages is psys, the whole platform, where a board has it: it would count them twice
        packages = [zone for zone in zones if _text(zone / "name").startswith("package")]
        return Rapl(packages) if packages else NoMeter(f"neither INA3221 nor a RAPL package below {root}")
    except PermissionError as error:
        return NoMeter(f"{error.filename} may not be read: let the node's user read it (RAPL is root's by default)")
    except (OSError, ValueError) as error:
        return NoMeter(str(error))


def _rails(chip: Path) -> list[_Rail]:
    """Find the rails of the channels that are connected and switched on."""
    rails = []
    for channel in _CHANNELS:
        label, switch = chip / f"in{channel}_label", chip / f"in{channel}_enable"
        rail = _Rail(
            label=_text(label) if label.exists() else f"in{channel}",
            millivolts=chip / f"in{channel}_input",
            milliamperes=chip / f"curr{channel}_input",
        )
        is_on = not switch.exists() or _number(switch) != 0
        if is_on and rail.label != _NOT_CONNECTED and rail.millivolts.exists() and rail.milliamperes.exists():
            rails.append(rail)
    return rails


def _number(file: Path) -> int:
    text = _text(file)
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{file}: {text!r} is no number") from None


def _text(file: Path) -> str:
    return file.read_text().strip()
