# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of model references, cards and files: the graph computes what the network computes."""

import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
import torch
from networks.lowered import assert_same_function
from onnx import TensorProto, helper
from safetensors.torch import save_file

from cacheinf_ros.errors import CacheinfError, ModelError
from cacheinf_ros.graph import ModelCard, WeightsOrigin, load_model, model_names, model_of
from cacheinf_ros.graph.model_factory import build_module
from cacheinf_ros.graph.write import write_model

SMALL = Path(__file__).parents[1] / "networks" / "small.py"


@pytest.mark.parametrize(("name", "size"), [("pilotnet", (66, 200)), ("mixed", (61, 47))])
def test_file_factory_graph_equals_module(name: str, size: tuple[int, int]) -> None:
    model = load_model(f"{SMALL}:{name}", input_size=size)
    assert_same_function(model.graph, model.module, size)
    assert model.graph.unknown == ()


def test_threads_that_load_a_model_at_once_get_the_same_weights() -> None:
    with ThreadPoolExecutor(8) as threads:
        loaded = list(threads.map(build_module, [f"{SMALL}:mixed"] * 32))
    first = loaded[0].state_dict()
    for module in loaded[1:]:
        assert all(torch.equal(value, first[name]) for name, value in module.state_dict().items())


def test_exported_program_file(tmp_path: Path) -> None:
    module = torch.nn.Conv2d(3, 4, 3, padding=1).eval()
    torch.export.save(torch.export.export(module, (torch.zeros(1, 3, 20, 24),)), tmp_path / "model.pt2")
    with pytest.raises(ModelError, match=r"may run code .* say trusted:.*model\.pt2"):
        load_model(str(tmp_path / "model.pt2"))
    (tmp_path / "card.yaml").write_text("factory: model.pt2")
    with pytest.raises(ModelError, match="may run code"):
        load_model(str(tmp_path / "card.yaml"))
    (tmp_path / "card.yaml").write_text("factory: trusted:model.pt2")
    assert load_model(str(tmp_path / "card.yaml")).name == "card"
    model = load_model(f"trusted:{tmp_path / 'model.pt2'}")
    assert model.input_size == (20, 24) and model.name == "model.pt2"
    with pytest.raises(ModelError, match=r"takes images of \(20, 24\), not \(8, 8\)"):
        load_model(f"trusted:{tmp_path / 'model.pt2'}", input_size=(8, 8))


def test_a_program_for_grey_images_is_refused_by_name(tmp_path: Path) -> None:
    """Frames are written as three floats per pixel."""
    module = torch.nn.Conv2d(1, 4, 3)
    torch.export.save(torch.export.export(module, (torch.zeros(1, 1, 20, 24),)), tmp_path / "grey.pt2")
    with pytest.raises(ModelError, match=r"model 'grey\.pt2': the model must take one image \[1, 3, .*: export"):
        load_model(f"trusted:{tmp_path / 'grey.pt2'}")


def test_onnx_file_equals_onnxruntime_semantics(tmp_path: Path) -> None:
    torch.manual_seed(0)
    weight, bias = torch.randn(4, 3, 3, 3), torch.randn(4)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 0, 0]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["g"]),
        helper.make_node("Flatten", ["g"], ["y"]),
    ]
    constants = [
        helper.make_tensor(name, TensorProto.FLOAT, value.shape, value.flatten().tolist())
        for name, value in (("w", weight), ("b", bias))
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 10, 12])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])
    model = helper.make_model(
        helper.make_graph(nodes, "net", [x], [y], constants), opset_imports=[helper.make_opsetid("", 13)]
    )
    model.ir_version = 8
    onnx.save(model, tmp_path / "net.onnx")
    image = torch.randn(1, 3, 10, 12)
    expected = torch.relu(torch.conv2d(torch.nn.functional.pad(image, (1, 0, 1, 0)), weight, bias)).mean((2, 3))
    loaded = load_model(str(tmp_path / "net.onnx"))
    assert loaded.input_size == (10, 12)
    assert torch.allclose(loaded.module(image)["y"], expected, atol=1e-5)


def test_card_gives_size_weights_and_labels(tmp_path: Path) -> None:
    trained = torch.nn.Conv2d(3, 2, 1)
    save_file(trained.state_dict(), tmp_path / "net.safetensors")
    (tmp_path / "net.py").write_text("import torch\ndef net():\n    return torch.nn.Conv2d(3, 2, 1)\n")
    (tmp_path / "card.yaml").write_text(
        "factory: net.py:net\nweights: net.safetensors\ninput_size: [8, 9]\nlabels: [road, sky]\ndecoder: {kind: map}\n"
    )
    model = load_model(str(tmp_path / "card.yaml"))
    assert (model.name, model.input_size, model.card.labels) == ("card", (8, 9), ("road", "sky"))
    assert torch.equal(model.module.weight, trained.weight)


def test_state_dict_is_read_without_unpickling_code(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return (print, ("code ran",))

    torch.save({"weight": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(ModelError, match=r"evil\.pt cannot be read as safetensors or a state dict"):
        load_model(f"{SMALL}:mixed", weights=tmp_path / "evil.pt")


def test_weights_that_are_a_whole_network_say_what_to_save(tmp_path: Path) -> None:
    """torch's own text is about reading them all the same."""
    torch.save(torch.nn.Conv2d(3, 4, 3), tmp_path / "whole.pth")
    with pytest.raises(ModelError) as caught:
        load_model(f"{SMALL}:mixed", weights=tmp_path / "whole.pth")
    assert str(caught.value).endswith("it holds more than tensors: save model.state_dict()")
    assert "weights_only" not in str(caught.value) and "\x1b" not in str(caught.value)


def test_weights_that_are_no_weights_at_all(tmp_path: Path) -> None:
    (tmp_path / "text.pth").write_text("hello world, this is no model")
    with pytest.raises(ModelError, match=r"text\.pth cannot be read as safetensors or a state dict"):
        load_model(f"{SMALL}:mixed", weights=tmp_path / "text.pth")


def test_suffixes_in_capitals(tmp_path: Path) -> None:
    module = torch.nn.Conv2d(3, 4, 3, padding=1).eval()
    torch.export.save(torch.export.export(module, (torch.zeros(1, 3, 20, 24),)), tmp_path / "NET.PT2")
    (tmp_path / "CARD.YAML").write_text("factory: trusted:NET.PT2\n")
    model = load_model(str(tmp_path / "CARD.YAML"))
    assert model.input_size == (20, 24) and model.weights_origin is WeightsOrigin.FILE
    (tmp_path / "NET.ONNX").write_bytes(b"this is no model")
    with pytest.raises(ModelError, match=r"NET\.ONNX is not an ONNX model"):
        load_model(str(tmp_path / "NET.ONNX"))


@pytest.mark.parametrize("name", ["net.pt", "net.pth", "nothing.PT"])
def test_what_others_save_is_refused_with_the_remedy(tmp_path: Path, name: str) -> None:
    torch.save(torch.nn.Conv2d(3, 4, 3).state_dict(), tmp_path / "net.pt")
    torch.save(torch.nn.Conv2d(3, 4, 3).state_dict(), tmp_path / "net.pth")
    with pytest.raises(
        ModelError, match=r"Export it to ONNX \(torch\.onnx\.export\), or give module:factory and a state"
    ):
        load_model(str(tmp_path / name))


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("nothing.onnx", "does not exist"),
        ("nothing.pt2", "does not exist"),
        ("nothing.yaml", "cannot be read"),
        ("nothing", "neither a file nor a reference"),
        ("resnet50", r"neither a file nor a reference.* \(did you mean torchvision:resnet50\?\)$"),
        ("torchvision:resnet5000", "has no model 'resnet5000'"),
        ("no.such.module:net", "cannot be imported"),
        ("nothing.py:net", "does not exist"),
        (f"{SMALL}:nothing", "has no factory 'nothing'"),
        (f"{SMALL}:Mixed.forward", "has no factory"),
        (str(SMALL), "is not a model"),
        ("math:sqrt", "its factory failed"),
        ("builtins:dict", "returned dict, not a torch.nn.Module"),
    ],
)
def test_unusable_references_are_named(reference: str, message: str) -> None:
    with pytest.raises(CacheinfError, match=message):
        load_model(reference)


@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
def test_files_that_are_no_models(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"noise{suffix}").write_bytes(b"this is no model")
    with pytest.raises(ModelError, match="is not"):
        load_model(f"{'trusted:' if suffix == '.pt2' else ''}{tmp_path / f'noise{suffix}'}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2]", "must be a mapping"),
        ("factory: a:b\nmeen: [1]", "meen"),
        ("factory: a:b\ninput_size: [0, 3]", "input_size"),
        ("factory: a:b\ndecoder: {kind: magic}", "decoder"),
        ("factory: a:b\ndecoder: {kind: ssd, strides: [8], min_boxes: []}", "1 strides and 0 lists"),
    ],
)
def test_unusable_cards_are_named(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "card.yaml").write_text(content)
    with pytest.raises(ModelError, match=message):
        load_model(str(tmp_path / "card.yaml"))


def test_model_with_another_input_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("import torch\ndef net():\n    return torch.nn.Conv2d(5, 2, 1)\n")
    with pytest.raises(ModelError, match="cannot be exported"):
        load_model(f"{tmp_path / 'net.py'}:net")


RANDOM = "torchvision:squeezenet1_1"


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_random_weights_are_warned_of_once_with_the_remedy(caplog: pytest.LogCaptureFixture) -> None:
    model = load_model(RANDOM, input_size=(64, 64))
    assert model.weights_origin is WeightsOrigin.RANDOM
    (warning,) = warnings_in(caplog)
    assert "'squeezenet1_1' has random weights" in warning
    assert "weights:=FILE" in warning and "--weights FILE" in warning and "model card" in warning


def test_a_card_without_weights_does_not_make_them_less_random(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    card = tmp_path / "squeeze.yaml"
    card.write_text(f"factory: {RANDOM}\ninput_size: [64, 64]\n")
    assert load_model(str(card)).weights_origin is WeightsOrigin.RANDOM
    assert len(warnings_in(caplog)) == 1


def test_weights_from_a_file_are_not_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    untrained = load_model(RANDOM, input_size=(64, 64))
    save_file(untrained.module.state_dict(), tmp_path / "squeeze.safetensors")
    write_model(untrained, tmp_path / "exported.yaml")
    card = tmp_path / "squeeze.yaml"
    card.write_text(f"factory: {RANDOM}\nweights: squeeze.safetensors\ninput_size: [64, 64]\n")
    caplog.clear()
    from_option = load_model(RANDOM, weights=tmp_path / "squeeze.safetensors", input_size=(64, 64))
    loaded = (from_option, load_model(str(card)), load_model(str(tmp_path / "exported.yaml")))
    assert {model.weights_origin for model in loaded} == {WeightsOrigin.FILE}
    assert warnings_in(caplog) == []


def test_an_exported_network_that_has_changed_is_refused(tmp_path: Path) -> None:
    write_model(load_model(f"{SMALL}:mixed", input_size=(61, 47)), tmp_path / "exported.yaml")
    exported = tmp_path / "exported.pt2"
    content = bytearray(exported.read_bytes())
    content[len(content) // 2] ^= 1
    exported.write_bytes(content)
    with pytest.raises(ModelError, match="has changed since its card was written"):
        load_model(str(tmp_path / "exported.yaml"))


def test_built_in_models_are_trained(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in model_names():
        built_in = load_model(name)
        assert built_in.weights_origin is WeightsOrigin.BUILT_IN
        save_file(built_in.module.state_dict(), tmp_path / "mine.safetensors")
        assert load_model(name, weights=tmp_path / "mine.safetensors").weights_origin is WeightsOrigin.FILE
    assert warnings_in(caplog) == []


def test_what_a_factory_or_a_caller_did_is_not_known(caplog: pytest.LogCaptureFixture) -> None:
    assert load_model(f"{SMALL}:mixed", input_size=(61, 47)).weights_origin is WeightsOrigin.UNKNOWN
    card = ModelCard(name="mine", factory=RANDOM, input_size=(20, 24))
    trained = model_of(torch.nn.Conv2d(3, 4, 3).eval(), card)
    assert trained.weights_origin is WeightsOrigin.UNKNOWN
    assert warnings_in(caplog) == []


def test_copies_of_a_model_say_where_its_weights_come_from() -> None:
    model = load_model("scenenames")
    assert replace(model, card=model.card.changed(name="copy")).weights_origin is WeightsOrigin.BUILT_IN


def test_importing_the_package_does_not_import_onnxruntime() -> None:
    program = "import sys, cacheinf_ros.graph, cacheinf_ros.graph.onnx_model; print('onnxruntime' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False"]
