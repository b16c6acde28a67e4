# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Model cards as people write them: what is meant is taken, and what is not is refused in their words."""

from __future__ import annotations

from pathlib import Path

import pytest

from cacheinf_ros.engine.frame_placement import picture_size, picture_within
from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph import (
    ModelCard,
    absolute_reference,
    is_grey,
    load_card,
    read_card,
)
from cacheinf_ros.graph.card import says_values


def card(folder: Path, text: str) -> ModelCard:
    (folder / "card.yaml").write_text(f"factory: a:b\n{text}\n")
    return read_card(folder / "card.yaml")


def test_one_number_counts_for_all_channels(tmp_path: Path) -> None:
    assert card(tmp_path, "mean: [0.5]\nstd: [0.2]").mean == (0.5, 0.5, 0.5)
    (tmp_path / "grey.yaml").write_text("factory: net.onnx\nchannel_order: grey\nmean: [0.5]\nstd: [0.2, 0.2, 0.2]\n")
    grey = read_card(tmp_path / "grey.yaml")
    assert is_grey(grey) and grey.std == (0.2, 0.2, 0.2)


@pytest.mark.parametrize("text", ["", "mean: [0]\n", "mean: [0, 1, 0]\nstd: [1]\n", "mean: [0]\nstd: [1, 2, 1]\n"])
def test_grey_pictures_have_one_mean_and_one_std(tmp_path: Path, text: str) -> None:
    (tmp_path / "grey.yaml").write_text(f"factory: net.onnx\nchannel_order: grey\n{text}")
    with pytest.raises(ModelError, match=r"with channel_order grey, give one mean and one std\. For .*'mean: \[0\]'"):
        read_card(tmp_path / "grey.yaml")


@pytest.mark.parametrize("text", ["{0: person, 1: car}", "{1: car, 0: person}", "[person, car]"])
def test_labels_may_be_numbered(tmp_path: Path, text: str) -> None:
    assert card(tmp_path, f"labels: {text}").labels == ("person", "car")


@pytest.mark.parametrize("text", ["64x96", "64X96", "[64, 96]"])
def test_a_size_may_be_written_as_on_the_command_line(tmp_path: Path, text: str) -> None:
    assert card(tmp_path, f"input_size: {text}").input_size == (64, 96)


def test_no_size_is_the_models_own(tmp_path: Path) -> None:
    assert card(tmp_path, "input_size:").input_size is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("labels: person", r"labels = 'person': give a list, such as \[person, car\]"),
        ("labels: {1: car, 2: person}", r"labels = .*: give a list, .* for each number from 0, as \{0: person"),
        ("labels: {a: car}", "a name for each number from 0"),
        ("mean: 0", "mean = 0: give a list of three numbers, one per channel"),
        ("mean: [0, 0]", "mean = .*: give a list of three numbers"),
        ("mean: [.nan, 0, 0]", "mean.0 = nan: input should be"),
        ("std: [0, 0, 0]", "std.0 = 0: input should be greater"),
        ("std: [1, -1, 1]", "std.1 = -1: input should be greater"),
        ("std: [1, 1, .inf]", "std.2 = inf: input should be less"),
        ("channel_order: grey\nmean: [0]\nstd: [1]", "channel_order grey is for ONNX files. Let a:b be a network that"),
        ("scale: .nan", "scale = nan: input should be"),
        ("input_size: 640", r"input_size = 640: give height and width, such as 480x640 or \[480, 640\]"),
        ("input_size: [640]", "input_size = .*: give height and width"),
        ("input_size: 64 by 96", "size '64 by 96': expected HEIGHTxWIDTH"),
        ("input_size: 64x9999", "input_size.1 = 9999: input should be less"),
        ("decoder: {kind: grids, strides: []}", "give one stride for each grid, each another"),
        ("decoder: {kind: grids, strides: [8, 8]}", "give one stride for each grid, each another"),
        ("decoder: {kind: grids, key_points: 2}", "as many values as a box"),
    ],
)
def test_what_is_unusable_is_said_plainly(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        card(tmp_path, text)
    assert str(caught.value).startswith(f"model card {tmp_path / 'card.yaml'}: ")
    assert "tuple" not in str(caught.value)


@pytest.mark.parametrize("factory", ["nowhere.onnx", "trusted:nowhere.pt2", "nowhere.py:net", "nowhere.PT"])
def test_a_missing_file_is_named_with_the_card_and_its_folder(tmp_path: Path, factory: str) -> None:
    (tmp_path / "card.yaml").write_text(f"factory: {factory}\n")
    with pytest.raises(ModelError) as caught:
        load_card(str(tmp_path / "card.yaml"))
    for part in (f"model card {tmp_path / 'card.yaml'}", f"'{factory}' does not exist", f"folder {tmp_path}"):
        assert part in str(caught.value)


def test_home_is_found_where_no_shell_has_replaced_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "net.py").write_text("")
    (tmp_path / "card.yaml").write_text("factory: ~/net.py:net\nweights: ~/net.safetensors\n")
    read = load_card("~/card.yaml")
    assert (read.factory, read.weights) == (f"{tmp_path / 'net.py'}:net", tmp_path / "net.safetensors")
    for reference in ("~/net.onnx", "trusted:~/net.pt2", "~/net.py:net"):
        assert load_card(reference).factory == reference.replace("~", str(tmp_path))


def test_says_values_where_all_of_them_are_said(tmp_path: Path) -> None:
    assert not says_values(card(tmp_path, "scale: 1\nmean: [0, 0, 0]"))
    assert says_values(card(tmp_path, "scale: 1\nmean: [0, 0, 0]\nstd: [1, 1, 1]"))


def test_a_name_that_no_file_can_have_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "card.yaml").write_text(f"factory: {'a' * 5000}.onnx\n")
    assert read_card(tmp_path / "card.yaml").factory.endswith(".onnx")


def test_references_that_are_kept_name_files_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.pt2").touch()
    monkeypatch.chdir(tmp_path)
    assert absolute_reference("trusted:net.pt2") == f"trusted:{tmp_path}/net.pt2"
    assert absolute_reference("net.pt2:build") == f"{tmp_path}/net.pt2:build"
    assert absolute_reference("torchvision:resnet18") == "torchvision:resnet18"


def test_outputs_are_about_the_left_of_two_pictures(tmp_path: Path) -> None:
    one, two = (card(tmp_path, f"pictures: {count}\ninput_size: 32x96") for count in (1, 2))
    assert (picture_size(one), picture_size(two)) == ((32, 96), (32, 48))
    assert (picture_within((480, 1280), one), picture_within((480, 1280), two)) == ((480, 1280), (480, 640))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pictures: 0", "pictures = 0"),
        ("pictures: 257", "pictures = 257"),
        ("pictures: 3\ninput_size: 32x97", "3 pictures: choose a width that 3 divides"),
        ("pictures: 2\none_channel_range: [1]", "one_channel_range"),
        ("pictures: 2\nresize: letterbox", "with 2 pictures in a frame, resize is stretch: the margins of letterbox"),
        ("pictures: 2\nscale: 0", "with a scale of 0, all pictures are alike"),
        ("pictures: 2\none_channel_range: [1, 1]", "give two different numbers as one_channel_range"),
        ("pictures: 2\ninput_size: 32x97", "choose an even width"),
        ("one_channel_range: [0, 8]", "one_channel_range is for frames that show two pictures: say 'pictures: 2'"),
    ],
)
def test_two_pictures_that_cannot_be_taken_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        card(tmp_path, text)


def test_two_pictures_become_grey_by_themselves(tmp_path: Path) -> None:
    (tmp_path / "grey.yaml").write_text("factory: net.onnx\npictures: 2\nchannel_order: grey\nmean: [0]\nstd: [1]\n")
    with pytest.raises(ModelError, match="leave out 'channel_order: grey': each of the 2 pictures becomes grey"):
        read_card(tmp_path / "grey.yaml")
