# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What ``cacheinf models inspect`` reports about operators."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from networks.lowered import graph_of
from safetensors.torch import save_file
from torch import Tensor, nn
from typer.testing import CliRunner

from cacheinf_ros.cli.models import Execution, execution, models
from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph import load_module

TINY = Path(__file__).parents[1] / "networks" / "tiny.py"


class Three(nn.Module):
    """A model with a local operator, a global one, and one that the engine does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3, 2, 1)

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        features = self.layer(image)
        return {"sum": features.mean((2, 3)), "odd": torch.linalg.matrix_exp(features)}


def test_operators_are_told_apart() -> None:
    graph = graph_of(Three().eval(), (16, 16))
    assert [execution(operator, graph) for operator in graph.operators] == [
        Execution.SPARSE, Execution.GLOBAL, Execution.UNKNOWN,
    ]  # fmt: skip


def inspected(*words: str) -> str:
    result = CliRunner().invoke(models, ["inspect", *words])
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_counts_and_shares() -> None:
    text = inspected(f"{TINY}:tiny")
    assert "tiny.py:tiny, input 48x64" in text
    assert "sparse │ conv │ 2 │" in text and "global │ conv │ 1 │" in text and "globalmean │ 1" in text
    assert "output output 1x5: a pixel depends on the whole image" in text
    assert "unknown" not in text


def test_every_operator() -> None:
    text = inspected(f"{TINY}:tiny", "--all")
    assert "1x8x24x32" in text and text.index("1x8x24x32") < text.index("1x8x12x16")


def test_random_weights_are_named_with_the_remedy(tmp_path: Path) -> None:
    network = "torchvision:squeezenet1_1"
    text = inspected(network, "--size", "64x64")
    assert "weights: random: answers mean nothing, speed is real. Give --weights FILE" in text
    save_file(load_module(network)[0].state_dict(), tmp_path / "squeeze.safetensors")
    text = inspected(network, "--size", "64x64", "--weights", str(tmp_path / "squeeze.safetensors"))
    assert "weights: from a file" in text and "random" not in text


def test_other_weights_are_named_too() -> None:
    assert "weights: trained, built into the package" in inspected("scenenames")
    assert "weights: as the factory made them, trained or not" in inspected(f"{TINY}:tiny")


def test_what_a_model_is_taken_for_is_named() -> None:
    text = inspected("scenenet")
    assert "image: stretch to" in text and "answer: read as centers; 5 labels: disc, square" in text
    text = inspected(f"{TINY}:tiny")
    assert "answer: read as classes, by the shape of the output; a model card says it for certain" in text
    assert "in mode bounded judged as classes, a guess by the shape of the output" in text
    assert "until a model card says 'decoder: {kind: raw}'" in text
    assert inspected("scenenames").count("in mode bounded judged as classes output") == 1
    assert "in mode bounded judged as boxes output" in inspected("scenenet")


@pytest.mark.parametrize("decoder", ["", "decoder: {kind: raw}"])
def test_it_is_named_where_few_channels_may_be_anything(decoder: str, tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(
        "import torch\ndef flow():\n    return torch.nn.Sequential(torch.nn.Conv2d(3, 2, 3, 2, 1))\n"
    )
    (tmp_path / "flow.yaml").write_text(f"factory: flow.py:flow\ninput_size: [16, 16]\n{decoder}\n")
    text = inspected(str(tmp_path / "flow.yaml"))
    if decoder:
        assert "answer: the outputs as they are in mode bounded judged as values output" in text
    else:
        assert "in mode bounded judged as values, which is strict, as 3 channels or fewer may be anything" in text


@pytest.mark.parametrize(
    ("made", "read", "judged"),
    [
        ("image.mean((2, 3)).to(torch.int64)", "none that is known.", "classes"),
        ("torch.cat([image, image], 1).mean((2, 3)).to(torch.int64)", "none that is known.", "classes"),
        ("image.argmax(1)", "read as map", "classes"),
        ("image.softmax(1)", "read as map", "classes, a guess"),
        ("torch.cat([image, image], 1).mean((2, 3), keepdim=True)", "none that is known.", "classes, a guess"),
        ("image.repeat(1, 100, 1, 1)", "none that is known.", "classes, a guess"),
        ("(image, image + 1)", "none that is known.", "values"),
    ],
)
def test_what_mode_bounded_judges_is_said_as_the_node_says_it(
    made: str, read: str, judged: str, tmp_path: Path
) -> None:
    network = tmp_path / "any.py"
    network.write_text(
        f"import torch\nclass Any(torch.nn.Module):\n    def forward(self, image):\n        return {made}\n"
    )
    text = inspected(f"{network}:Any", "--size", "16x16")
    assert f"answer: {read}" in text
    assert f"in mode bounded judged as {judged}" in text and ("a guess" in judged) == ("judged as classes, a" in text)


def test_the_list_suggests_no_model_with_random_weights() -> None:
    result = CliRunner().invoke(models, ["list"])
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "scenenet" in text and text.count("torchvision") == text.count("torchvision:NAME with --weights FILE") == 1


def test_the_unknown_is_named_with_what_it_costs(tmp_path: Path) -> None:
    network = tmp_path / "odd.py"
    network.write_text(
        "import torch\n"
        "class Odd(torch.nn.Module):\n"
        "    def forward(self, image):\n"
        "        return torch.linalg.matrix_exp(image)\n"
    )
    text = inspected(f"{network}:Odd", "--size", "16x16")
    assert "unknown to the engine: aten.linalg_matrix_exp.default" in text and "slower, never wrong" in text


def test_outputs_that_nobody_can_read_are_named_with_the_remedy(tmp_path: Path) -> None:
    network = tmp_path / "odd.py"
    network.write_text(
        "import torch\nclass Odd(torch.nn.Module):\n    def forward(self, image):\n        return image, image + 1\n"
    )
    text = inspected(f"{network}:Odd", "--size", "16x16")
    assert "answer: none that is known." in text and "a model card with a decoder says what they mean" in text


def test_brackets_in_names_are_printed_as_they_are(tmp_path: Path) -> None:
    """They are markup to the library that prints tables."""
    card = tmp_path / "card.yaml"
    card.write_text(
        f"name: net[bold]\nfactory: {TINY}:tiny\ndecoder: {{kind: classes}}\nlabels: ['[red]', 'a[/x]', b, c, d]\n"
    )
    text = inspected(str(card))
    assert "net[bold], input 48x64" in text and "labels: [red], a[/x], b" in text
    assert "net[bold], input 48x64" in inspected(str(card), "--all")


def carded(folder: Path, content: str) -> str:
    """Write a card for the small network, which gives [1, 5], and return its path."""
    (folder / "card.yaml").write_text(f"factory: {TINY}:tiny\n{content}\n")
    return str(folder / "card.yaml")


def test_a_card_that_fails_on_every_frame_is_refused(tmp_path: Path) -> None:
    """It was confirmed: the answer was said to be read as boxes."""
    card = carded(tmp_path, "decoder: {kind: boxes, boxes: bbox, scores: output}")
    result = CliRunner().invoke(models, ["inspect", card])
    assert isinstance(result.exception, ModelError) and "read as" not in result.output
    assert "there is no output named 'bbox'; there are: output [1, 5]" in str(result.exception)


def test_classes_without_a_label_are_named(tmp_path: Path) -> None:
    text = inspected(carded(tmp_path, "decoder: {kind: classes}\nlabels: [a, b]"))
    assert "2 labels: a, b labels: the outputs have 5 classes, and the card names 2 of them" in text
    assert "the outputs have" not in inspected(carded(tmp_path, "decoder: {kind: classes}\nlabels: [a, b, c, d, e]"))
    assert "the outputs have" not in inspected(carded(tmp_path, "decoder: {kind: classes}"))


def test_values_of_images_that_nobody_stated_are_named(tmp_path: Path) -> None:
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, 2, 1), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    torch.export.save(torch.export.export(network.eval(), (torch.zeros(1, 3, 16, 24),)), tmp_path / "net.pt2")
    default = "(0.229, 0.224, 0.225), by default: the file does not say"
    assert default in inspected(f"trusted:{tmp_path}/net.pt2")
    card = tmp_path / "card.yaml"
    card.write_text("factory: trusted:net.pt2\nresize: letterbox\ndecoder: {kind: classes}\n")
    assert default in inspected(str(card))
    card.write_text("factory: trusted:net.pt2\nmean: [0, 0, 0]\nstd: [1, 1, 1]\n")
    assert "by default" not in inspected(str(card)) and "by default" not in inspected("scenenet")
