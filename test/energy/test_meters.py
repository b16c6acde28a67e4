# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Energy meters read a sysfs that the tests write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cacheinf_ros.energy.meters import EnergyMeter, Ina3221, NoMeter, Rapl, find_meter

RANGE_UJ = 262_143_328_850


def write(folder: Path, **texts: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(f"{text}\n")
    return folder


def zone(root: Path, name: str, label: str, energy_uj: int) -> Path:
    folder = root / "class/powercap" / name
    return write(folder, name=label, energy_uj=energy_uj, max_energy_range_uj=RANGE_UJ)


def chip(root: Path, device: str = "1-0040", driver: str = "ina3221") -> Path:
    """Make a chip's folder as the kernel does: the driver's folder holds links to devices."""
    hwmon = root / "devices" / device / "hwmon/hwmon3"
    hwmon.mkdir(parents=True)
    (root / "bus/i2c/drivers" / driver).mkdir(parents=True, exist_ok=True)
    (root / "bus/i2c/drivers" / driver / device).symlink_to(root / "devices" / device)
    return hwmon


def rail(hwmon: Path, channel: int, label: str, millivolts: int, milliamperes: int) -> None:
    values = {"label": label, "input": millivolts, "enable": 1}
    write(hwmon, **{f"in{channel}_{name}": value for name, value in values.items()})
    write(hwmon, **{f"curr{channel}_input": milliamperes})


def found(root: Path) -> EnergyMeter:
    meter = find_meter(root)
    assert not isinstance(meter, NoMeter), meter.reason
    return meter


def reason(root: Path) -> str:
    meter = find_meter(root)
    assert isinstance(meter, NoMeter)
    return meter.reason


def ticks(*seconds: float) -> Callable[[], float]:
    left: Iterator[float] = iter(seconds)
    return lambda: next(left)


def test_rapl_counts_packages_since_it_was_opened(tmp_path: Path) -> None:
    first, second = (
        zone(tmp_path, "intel-rapl:0", "package-0", 5_000_000),
        zone(tmp_path, "intel-rapl:1", "package-1", 7),
    )
    platform, core = zone(tmp_path, "intel-rapl:2", "psys", 0), zone(tmp_path, "intel-rapl:0:0", "core", 0)
    write(tmp_path / "class/powercap/intel-rapl", enabled=1)
    meter = found(tmp_path)
    assert (meter.name, meter.joules()) == ("RAPL package-0 + package-1", 0.0)
    for each in (platform, core):
        write(each, energy_uj=10**9)
    write(first, energy_uj=6_500_000)
    write(second, energy_uj=250_007)
    assert meter.joules() == pytest.approx(1.75)


def test_rapl_starts_again_when_its_counter_is_full(tmp_path: Path) -> None:
    package = zone(tmp_path, "intel-rapl:0", "package-0", RANGE_UJ - 1_000_000)
    meter = found(tmp_path)
    write(package, energy_uj=2_000_000)
    assert meter.joules() == pytest.approx(3.0)
    write(package, energy_uj=4_000_000)
    assert meter.joules() == pytest.approx(5.0)
    write(package, energy_uj=1_000_000)
    assert meter.joules() == pytest.approx(2.0 + RANGE_UJ / 1e6)


def test_ina3221_takes_the_input_rail_where_there_is_one(tmp_path: Path) -> None:
    hwmon = chip(tmp_path)
    rail(hwmon, 1, "VDD_IN", 5000, 1000)
    rail(hwmon, 2, "VDD_CPU_GPU_CV", 5000, 400)
    rail(hwmon, 3, "VDD_SOC", 5000, 200)
    assert found(tmp_path).name == "INA3221 VDD_IN"
    meter = Ina3221([hwmon], ticks(10.0, 12.0, 12.5))
    write(hwmon, curr1_input=3000)
    assert meter.joules() == pytest.approx(2.0 * (5 + 15) / 2)
    write(hwmon, curr1_input=1000)
    assert meter.joules() == pytest.approx(20.0 + 0.5 * (15 + 5) / 2)


def test_ina3221_adds_rails_of_all_chips_otherwise(tmp_path: Path) -> None:
    """As on an AGX Orin, some channels are not connected; shunt voltages and a sum follow the third channel."""
    one, two = chip(tmp_path, "1-0040"), chip(tmp_path, "1-0041")
    rail(one, 1, "VDD_GPU_SOC", 20_000, 100)
    rail(one, 2, "VDD_CPU_CV", 20_000, 50)
    write(one, in3_label="VIN_SYS_5V0", in3_input=5000, curr3_input=600)
    write(one, in4_input=200, curr4_input=750, in7_label="sum of shunt voltages", in7_input=9)
    rail(two, 1, "NC", 5000, 1000)
    rail(two, 2, "VDDQ_VDD2_1V8AO", 5000, 200)
    rail(two, 3, "OFF", 5000, 1000)
    write(two, in3_enable=0)
    assert found(tmp_path).name == "INA3221 VDD_GPU_SOC + VDD_CPU_CV + VIN_SYS_5V0 + VDDQ_VDD2_1V8AO"
    assert Ina3221([one, two], ticks(0.0, 2.0)).joules() == pytest.approx(2.0 * (2 + 1 + 3 + 1))


def test_ina3221_of_an_older_driver_without_labels_goes_before_rapl(tmp_path: Path) -> None:
    hwmon = chip(tmp_path, driver="ina3221x")
    write(hwmon, in1_input=5000, curr1_input=1000)
    zone(tmp_path, "intel-rapl:0", "package-0", 0)
    assert found(tmp_path).name == "INA3221 in1"


def test_where_there_is_no_meter_the_reason_is_known(tmp_path: Path) -> None:
    assert "neither INA3221 nor a RAPL package" in reason(tmp_path / "nowhere")
    zone(tmp_path, "intel-rapl:0", "psys", 0)
    assert "neither INA3221 nor a RAPL package" in reason(tmp_path)
    package = zone(tmp_path, "intel-rapl:1", "package-0", 0)
    (package / "max_energy_range_uj").unlink()
    assert "max_energy_range_uj" in reason(tmp_path)
    write(package, max_energy_range_uj=0)
    assert "no range" in reason(tmp_path)
    write(package, max_energy_range_uj=RANGE_UJ, energy_uj="?")
    assert "'?' is no number" in reason(tmp_path)
    chip(tmp_path)
    assert "without a rail" in reason(tmp_path)


def test_a_counter_that_is_for_root_only_is_no_meter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0", 0)
    read_text = Path.read_text

    def refused(file: Path) -> str:
        if file.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(file))
        return read_text(file)

    monkeypatch.setattr(Path, "read_text", refused)  # a test may be run by root
    assert "intel-rapl:0/energy_uj may not be read" in reason(tmp_path)


def test_a_meter_that_is_gone_says_so(tmp_path: Path) -> None:
    package = zone(tmp_path, "intel-rapl:0", "package-0", 0)
    meter = Rapl([package])
    (package / "energy_uj").unlink()
    with pytest.raises(OSError, match="energy_uj"):
        meter.joules()
