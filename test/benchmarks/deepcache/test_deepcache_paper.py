# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""DeepCache's tables and figures: results that do not depend on time come out as they must."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmarks.deepcache import runs
from benchmarks.deepcache.beside_paper import with_paper
from benchmarks.deepcache.clips import Clip, clips_in
from benchmarks.deepcache.engines import DEEPCACHE, DEEPMON, NO_CACHE, WARM_UP, PaperEngine
from benchmarks.deepcache.layer_rules import Sliding, propagated
from benchmarks.deepcache.networks import load_network
from benchmarks.deepcache.published import FIGURES, NOTES
from cacheinf_ros.cli.all_commands import app
from cacheinf_ros.errors import SourceError
from cacheinf_ros.graph import load_model

_CLASSIFIER = """
import torch
from torch import nn

def net():
    conv = nn.Conv2d(3, 2, 1, bias=False)
    conv.weight.data = torch.tensor([[-1.0, 0.0, 1.0], [1.0, 0.0, -1.0]])[:, :, None, None]
    blur = nn.Conv2d(2, 2, 3, padding=1, groups=2, bias=False)
    nn.init.constant_(blur.weight, 1 / 9)
    return nn.Sequential(conv, blur, nn.AdaptiveAvgPool2d(1), nn.Flatten())
"""


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """Write two classes with a clip of pictures each, laid out as UCF101's folders of videos: one blue, one red."""
    rng = np.random.default_rng(0)
    for label, channel in (("blue", 0), ("red", 2)):
        folder = tmp_path / "data" / label / f"v_{label}_g01_c01"
        folder.mkdir(parents=True)
        for i in range(4):
            image = rng.integers(0, 30, (40, 60, 3), dtype=np.uint8)
            image[..., channel] += 100
            image[5 * i : 5 * i + 10, 20:30] = 255
            cv2.imwrite(str(folder / f"{i}.png"), image)
    (tmp_path / "net.py").write_text(_CLASSIFIER)
    return tmp_path


def test_the_example_of_figure_8() -> None:
    """The rectangle, and where it was, come out after convolution (as printed in section 5) and pooling."""
    rows = propagated()
    assert rows[0]["reusable"] == "(53, 53, 45, 15)"
    assert rows[0]["copied from"] == "(63, 63, 45, 15)"
    assert rows[1]["reusable"] == "(27, 27, 22, 7)"


@given(
    kernel=st.integers(1, 7),
    stride=st.integers(1, 3),
    padding=st.integers(0, 3),
    x=st.integers(10, 60),
    y=st.integers(10, 60),
    w=st.integers(12, 50),
    h=st.integers(12, 50),
)
def test_the_engine_leaves_what_the_papers_rule_leaves_or_one_pixel_less(
    kernel: int, stride: int, padding: int, x: int, y: int, w: int, h: int
) -> None:
    """The rule ignores where the rectangle begins: where it begins between strides, its last pixel reads beyond it."""
    layer = Sliding(name="", kernel=kernel, stride=stride, padding=padding)
    theirs, ours = layer.by_rule((x, y, w, h)), layer.by_engine((x, y, w, h))
    assert ours[:2] == theirs[:2]
    assert theirs[2] - 1 <= ours[2] <= theirs[2]
    assert theirs[3] - 1 <= ours[3] <= theirs[3]


def test_clips_are_found_in_either_layout(labelled: Path) -> None:
    clips = clips_in(labelled / "data")
    assert [clip.label for clip in clips] == ["blue", "red"]
    assert len(clips[0].images(10)) == 4
    assert [clip.label for clip in clips_in(labelled / "data" / "blue")] == ["v_blue_g01_c01"]
    with pytest.raises(SourceError, match="CLASS/CLIP"):
        clips_in(labelled / "data" / "blue" / "v_blue_g01_c01")


def test_the_three_engines_agree_on_a_frame_that_stays(labelled: Path) -> None:
    model = load_model(f"{labelled / 'net.py'}:net", input_size=(40, 60))
    image = clips_in(labelled / "data")[0].images(1)[0]
    for name in (NO_CACHE, DEEPMON, DEEPCACHE):
        engine = PaperEngine(name, model)
        first, second = engine.run(image), engine.run(image)
        assert np.array_equal(first.outputs.copy(), second.outputs)
        assert second.reused == (0.0 if name == NO_CACHE else 1.0)


def test_accuracy_on_labelled_clips(labelled: Path) -> None:
    report, pictures = labelled / "report.json", labelled / "pictures"
    arguments = ["--figure", "13", "--data", str(labelled / "data"), "--model", f"{labelled / 'net.py'}:net"]
    arguments += ["--size", "40x60", "--frames", "3", "--json", str(report), "--plots", str(pictures)]
    run = CliRunner().invoke(app, ["bench", "paper", "deepcache", *arguments])
    assert run.exit_code == 0, run.output
    rows = json.loads(report.read_text())["figures"]["13"]["rows"]
    assert [row["engine"] for row in rows] == [NO_CACHE, DEEPMON, DEEPCACHE]
    assert all((row["top1"], row["top3"]) == (1.0, 1.0) for row in rows)
    assert (pictures / "deepcache_figure_13.png").exists()


def test_every_number_that_the_text_states_stands_beside_ours_or_has_none() -> None:
    """The numbers are worked out by hand: 300 of 400 us are convolutions'; the cache saves half the time or energy."""
    layers = [
        {"layer": 1 + n, "type": kind, "no_cache_us": 100.0, "deepmon_us": 90.0, "deepcache_us": 60.0}
        for n, kind in enumerate(("conv", "conv", "conv", "fc"))
    ]
    frames = [
        {"network": name, "clip": "Billiards", "deepcache_saved": 0.5, "deepmon_saved": 0.25, "deepcache saved": 0.5}
        | {"deepmon saved": 0.25, "deepcache_median_mse": 0.1, "deepmon_median_mse": 0.2}
        for name in ("alexnet", "resnet50", "yolo", "dave")
    ]
    joules = [
        {"network": "resnet50", "engine": engine, "joules_per_frame": each}
        for engine, each in ((NO_CACHE, 8.0), (DEEPMON, 6.0), (DEEPCACHE, 4.0))
    ]
    tops = [
        {"engine": engine, "top1": top1, "top3": 0.75}
        for engine, top1 in ((NO_CACHE, 0.5), (DEEPMON, 0.5), (DEEPCACHE, 0.25))
    ]
    swept = {"ms": 5.0, "no_cache_ms": 10.0, "saved": 0.5}
    expected: dict[int, tuple[list[dict[str, Any]], list[Any]]] = {
        4: (layers, [25.0, 75.0]),
        9: ([{"network": "resnet50", "times": each} for each in (1.0, 60.0)], [60.0]),
        10: (frames, [50.0, 25.0, 50.0, 25.0, None, None, 50.0]),
        11: (frames, [50.0, 50.0, None, 50.0, None]),
        12: (layers, [0.1, 25.0, 0.04]),
        13: (tops, [50.0, 75.0, 25.0, 0.0]),
        14: (frames, [0.1, 0.2, 0.1, 0.2]),
        15: (joules, [50.0, 25.0, 50.0, 40.0]),
        16: ([{"threshold": "20", **swept}], [10.0, 5.0, 50.0, None]),
        17: ([{"block_size": "2", **swept}], [50.0, None]),
        18: ([{"convolutions": 3.0}, {"convolutions": 9.0}], [3.0, 9.0]),
    }
    assert set(expected) == set(FIGURES) == set(NOTES)
    for number, (rows, ours) in expected.items():
        found = with_paper(number, rows)
        values = [value for each in found["paper"] for value in np.ravel(each["ours"])]
        assert values == pytest.approx(ours), number
        assert all(each["paper"] and each["cited"] for each in found["paper"])
    assert [row["layer"] for row in with_paper(12, layers)["rows"]] == [1, 2, 3]
    assert with_paper(4, layers, "dave")["note"].endswith("ours are of dave alone")


def test_what_is_printed_has_the_papers_numbers(tmp_path: Path) -> None:
    """Figure 18 is quick to compute: the memory of a network's cache."""
    arguments = ["--figure", "18", "--network", "dave", "--json", str(tmp_path / "18.json")]
    run = CliRunner().invoke(app, ["bench", "paper", "deepcache", *arguments])
    assert run.exit_code == 0, run.output
    assert "2.5 to 43.8" in run.output and "section 7.7" in run.output
    assert json.loads((tmp_path / "18.json").read_text())["figures"]["18"]["paper"][0]["paper"] == [2.5, 43.8]
    run = CliRunner().invoke(app, ["bench", "paper", "deepcache", "--figure", "8", "--plots", str(tmp_path)])
    assert run.exit_code == 0, run.output
    assert cv2.imread(str(tmp_path / "deepcache_figure_8.png")) is not None


def test_the_networks_of_figure_18_without_a_size_are_those_that_the_paper_cites() -> None:
    """MobileNet's first version has 4.2 million weights, SqueezeNet has 1.25 million."""
    for name, millions in (("mobilenet", 4.2), ("squeezenet", 1.25)):
        weights = load_network(name).module.parameters()
        assert sum(weight.numel() for weight in weights) / 1e6 == pytest.approx(millions, rel=0.02)


def test_energy_is_metered_after_the_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first engine alone paid for the first frames, in which everything is allocated: a frame costs 1 J here."""
    drawn = 0.0

    class Costly:
        def __init__(self, *_: Any, **__: Any) -> None:
            self._frames = 0

        def run(self, image: Any) -> None:
            nonlocal drawn
            drawn += 100.0 if self._frames < WARM_UP else 1.0
            self._frames += 1

    monkeypatch.setattr(runs, "PaperEngine", Costly)
    meter: Any = SimpleNamespace(joules=lambda: drawn)
    enough, short = (Clip(source=f"scene:fixed?size=48x64&frames={n}", label="") for n in (WARM_UP + 3, WARM_UP))
    model: Any = None
    assert [row["joules_per_frame"] for row in runs.energy(model, enough, meter, frames=3, threads=1)] == [1.0] * 3
    with pytest.raises(SourceError, match="too few frames"):
        runs.energy(model, short, meter, frames=3, threads=1)
