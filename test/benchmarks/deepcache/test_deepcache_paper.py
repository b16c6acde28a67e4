# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""DeepCache's tables and figures: what is not a matter of time comes out as it must."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmarks.deepcache.clips import clips_in
from benchmarks.deepcache.engines import DEEPCACHE, DEEPMON, NO_CACHE, PaperEngine
from benchmarks.deepcache.layer_rules import Sliding, propagated
from cacheinf_ros.cli.main import app
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
    """Two classes with a clip of pictures each, as UCF101 has folders of videos: one blue, one red."""
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
    """Its rectangle and where that was, behind a convolution and a pooling; the first is printed in section 5."""
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
    """The rule does not see where the rectangle begins: where that is between strides, its last pixel reads beyond."""
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
