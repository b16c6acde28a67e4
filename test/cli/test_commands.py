# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The command line as a user types it: helpful help, results on screen and in files, and errors in one line."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from networks.shared_models import small_scenenet
from quantised import scales_of

from cacheinf_ros.cli.main import main
from cacheinf_ros.cli.output_files import checked_file, checked_picture
from cacheinf_ros.engine import Precision
from cacheinf_ros.engine.backends import choose_backend
from cacheinf_ros.engine.quantisation import keep_scales
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.graph import weight_bytes


def cacheinf(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command in this process: a new one would spend seconds on imports; other tests check that it starts."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["cacheinf", *words])
        patch.setenv("COLUMNS", "160")  # so that the text of tables is not folded
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        finally:
            signal.signal(signal.SIGTERM, handler)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


@pytest.mark.parametrize(
    ("words", "taught"),
    [
        ((), "cacheinf demo"),
        (("demo",), "scene"),
        (("replay",), "bag"),
        (("bench", "engine"), "openvino"),
        (("bench", "matcher"), "match ratio"),
        (("models", "inspect"), "sparsely"),
        (("doctor",), "middleware"),
    ],
)
def test_help_teaches(words: tuple[str, ...], taught: str) -> None:
    result = cacheinf(*words, "--help")
    assert result.returncode == 0
    assert taught in " ".join(result.stdout.split())


def test_doctor_finds_everything_that_is_needed() -> None:
    result = cacheinf("doctor")
    assert result.returncode == 0, result.stdout
    assert "CacheMap" in result.stdout and "rmw" in result.stdout and "Fast DDS" in result.stdout


def test_models_lists_and_inspects() -> None:
    assert "scenenet" in cacheinf("models", "list").stdout
    inspected = cacheinf("models", "inspect", "torchvision:squeezenet1_1", "--size", "96x128").stdout
    assert "conv" in inspected and "sparse" in inspected and "globalmean" in inspected
    assert "a pixel depends on 95x127 pixels" in inspected  # its last pooling leaves out a row and a column


def test_bench_engine_writes_json(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out.json"
    result = cacheinf(
        "bench", "engine", "--source", "scene:fixed?size=96x128", "--size", "96x128", "--frames", "3",
        "--contenders", "dense_channels_last", "--json", str(out),
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    report = json.loads(out.read_text())
    assert {"model", "size", "frames", "mode", "threads", "reuse_ratio", "latency_ms"} <= set(report)
    assert {"speedup_vs_best_dense", "speedup_vs_eager", "efficiency", "top1_agreement", "cache_mb"} <= set(report)
    assert {"engine_error", "matching_error", "output_error", "flicker", "agreement", "missed_change"} <= set(report)
    assert {"f1", "f1_truth", "policies"} <= set(report)


def test_bench_engine_on_a_set_share_of_change(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    words = ("--size", "96x128", "--frames", "2", "--contenders", "dense_channels_last", "--json", str(out))
    result = cacheinf("bench", "engine", "--changed", "0.1:scatter", *words)
    assert result.returncode == 0, result.stderr
    report = json.loads(out.read_text())
    assert report["source"] == "changed 0.1:scatter"
    assert report["reuse_ratio"]["mean"] == pytest.approx(0.9, abs=0.001)


def test_memory_plans_and_draws(tmp_path: Path) -> None:
    picture = tmp_path / "plan.png"
    printed = cacheinf("memory", "scenenet", "--size", "96x128", "--out", str(picture)).stdout
    assert "greedy_by_breadth" in printed and "optimal" in printed and "lower bound" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "0 feature maps are kept between frames" in printed
    halved = cacheinf("memory", "scenenet", "--size", "96x128", "--device", "cuda", "--precision", "float16").stdout
    whole, half = (float(re.findall(r"lower bound.*?([\d.]+)\D*\n", text)[0]) for text in (printed, halved))
    assert 0.4 < half / whole < 0.7  # outputs stay float32
    printed = cacheinf("memory", "scenenet", "--size", "96x128", "--cache-budget-mb", "0.2").stdout
    kept = re.search(r"(\d+) feature maps are kept between frames, (\S+) MiB; (\d+) live within one", printed)
    assert kept and int(kept[1]) > 0 and 0 < float(kept[2]) <= 0.2 and int(kept[3]) > 0


@pytest.mark.skipif(not choose_backend("cpu", 1, Precision.INT8).takes_levels, reason="needs the compiled kernels")
def test_levels_take_a_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With int8 a value takes a byte, both in the memory plan and in the operators that a link is planned with."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model = ("scenenet", "--size", "96x128")
    assert "cacheinf quantise" in " ".join(cacheinf("profile", *model, "--precision", "int8").stderr.split())
    keep_scales(small_scenenet(), scales_of(small_scenenet()))
    arenas, outputs, weights = [], [], []
    for precision in ("float32", "int8"):
        out = tmp_path / precision
        printed = cacheinf("memory", *model, "--precision", precision, "--time-limit-s", "0").stdout
        arenas.append(float(re.findall(r"lower bound\D+\S+\D+(\S+)", printed)[0]))
        assert cacheinf("profile", *model, "--precision", precision, "--json", str(out)).returncode == 0
        operators = json.loads(out.read_text())["operators"]
        outputs.append({each["operator"]: each["kib"] for each in operators})
        weights.append(sum(each["weight_kib"] for each in operators))
    assert arenas[1] < 0.4 * arenas[0]
    assert weights[0] == pytest.approx(weight_bytes(small_scenenet().graph) / 1024)
    assert weights[1] < 0.3 * weights[0]
    floats, levels = outputs
    assert {levels[name] / kib for name, kib in floats.items()} == {0.25, 1.0}


def test_copies_into_concatenations_are_operators_without_operations(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    espnet = str(Path(__file__).parents[1] / "networks" / "espnet.yaml")
    assert cacheinf("profile", espnet, "--size", "64x64", "--json", str(out)).returncode == 0
    copies = [each for each in json.loads(out.read_text())["operators"] if each["operator"] == "cat:0"]
    assert [(each["flops"], each["weight_kib"]) for each in copies] == [(0, 0.0)]


def test_bench_memory_writes_json(tmp_path: Path) -> None:
    (tmp_path / "T.8.csv").write_text("id,lower,upper,size\na,0,2,4\nb,1,3,4\nc,2,4,4\n")
    out = tmp_path / "out.json"
    merging = ("--model", "scenenet", "--size", "96x128", "--merging-limit-s", "0.2")
    timing = ("--source", "scene:fixed?size=96x128", "--frames", "3")
    printed = cacheinf("bench", "memory", "--instances", str(tmp_path), *merging, *timing, "--json", str(out)).stdout
    assert "mobilenet_v1" in printed and "scenenet" in printed
    report = json.loads(out.read_text())
    assert report["minimalloc"]["T"]["optimal"]["fits"]
    peak = report["peak"]["scenenet"]
    assert peak["weights"] < peak["no_cache"] <= peak["merged"] <= peak["cache_all"]
    assert set(peak["measured_ms"]) == {"cache_all", "merged"}


def test_bench_matcher_writes_json(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    result = cacheinf(
        "bench",
        "matcher",
        "--source",
        "scene:pan?size=96x128",
        "--sizes",
        "96x128",
        "--frames",
        "4",
        "--json",
        str(out),
    )
    assert result.returncode == 0, result.stderr
    algorithms = json.loads(out.read_text())["sizes"]["96x128"]
    assert {"identity", "diamond_optimised", "homography"} <= set(algorithms)
    assert all({"latency_ms", "match_ratio"} <= set(values) for values in algorithms.values())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("bench", "engine", "--model", "nothing.onnx"), "model file nothing.onnx does not exist"),
        (("bench", "engine", "--source", "nothing.mp4"), "nothing.mp4: no such file or folder"),
        (("bench", "engine", "--size", "big"), "size 'big': expected HEIGHTxWIDTH"),
        (("bench", "engine", "--contenders", "tensorflow"), "known: dense_eager"),
        (("bench", "engine", "--contenders", "torch_cuda"), "need --device cuda, not cpu"),
        (("bench", "engine", "--changed", "much"), "changed 'much': expected a share"),
        (("models", "inspect", "torchvision:nothing"), "torchvision has no model 'nothing'"),
        (("models", "inspect", __file__), "is not a model"),
        (("replay", "nothing.bag"), "nothing.bag"),
        (("replay", "clips[night]"), "clips[night]: no such file"),
        (("replay", "a[/x].mp4"), "a[/x].mp4: no such file"),
    ],
)
def test_mistakes_get_one_line(words: tuple[str, ...], message: str) -> None:
    result = cacheinf(*words)
    assert result.returncode == 2
    text = " ".join((result.stdout + result.stderr).split())
    assert message in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("words", "option", "file"),
    [
        (("profile", "scenenet", "--size", "96x128"), "--json", "out.json"),
        (("quantise", "scenenet", "--source", "scene:fixed"), "--json", "out.json"),
        (("memory", "scenenet", "--size", "96x128"), "--out", "plan.png"),
        (("catalog", "show", "nowhere"), "--plot", "front.png"),
        (("catalog", "build", "scenenet"), "--out", ""),
        (("catalog", "share", "scenenames"), "--out", ""),
        (("replay", "scene:fixed"), "--out", ""),
        (("demo",), "--out", ""),
        (("advise", "scene:fixed", "scenenet"), "--out", ""),
        (("soak",), "--out", ""),
        (("fleet", "demo"), "--out", ""),
        (("fleet", "simulate"), "--json", "out.json"),
        (("fleet", "simulate"), "--plot", "out.png"),
        (("bench", "engine"), "--json", "out.json"),
        (("bench", "stream", "--no-nodes"), "--html", "out.html"),
        (("bench", "stream"), "--out", ""),
    ],
)
def test_where_nothing_can_be_written_is_told_before_anything_is_measured(
    words: tuple[str, ...], option: str, file: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    wanted = tmp_path / "file" / "deep" / file
    result = cacheinf(*words, option, str(wanted))
    assert result.returncode == 2, result.stdout
    assert f"error: {wanted} cannot be written: {tmp_path / 'file'} is no folder; give another place" in result.stderr
    assert not result.stdout


@pytest.mark.parametrize(
    ("words", "option", "file"),
    [
        (("profile", "scenenet", "--size", "96x128"), "--json", "out.json"),
        (("memory", "scenenet", "--size", "96x128", "--time-limit-s", "0"), "--out", "plan.png"),
        (("fleet", "simulate", "--robots", "10", "--seconds", "2"), "--json", "out.json"),
    ],
)
def test_folders_of_files_are_made(words: tuple[str, ...], option: str, file: str, tmp_path: Path) -> None:
    result = cacheinf(*words, option, str(tmp_path / "deep" / file))
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "deep" / file).is_file()


def test_what_can_no_longer_be_written_at_the_end_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    result = cacheinf("fleet", "simulate", "--robots", "10", "--seconds", "2", "--json", str(tmp_path / "out.json"))
    assert result.returncode == 2
    assert f"{tmp_path / 'out.json'} cannot be written: No space left on device" in result.stderr


def test_a_file_that_may_not_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out.json").touch()
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as root may write to everything
    for wanted in (tmp_path, tmp_path / "out.json", tmp_path / "deep" / "out.json"):
        with pytest.raises(ConfigError, match=f"{wanted} cannot be written"):
            checked_file(wanted)


@pytest.mark.parametrize("name", ["plan", "plan.foo"])
def test_a_picture_of_no_known_format_is_refused_before_the_work(tmp_path: Path, name: str) -> None:
    """matplotlib raised a ValueError at the end, or wrote another file."""
    with pytest.raises(ConfigError, match=r"cannot be drawn: give a file that ends with \.png"):
        checked_picture(tmp_path / name)
    assert checked_picture(tmp_path / "plan.SVG") == tmp_path / "plan.SVG"
