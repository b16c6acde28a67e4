# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Precomputed features are right, are stored, and are never those of another trunk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from cacheinf_ros.catalog.labelled_pictures import Labelled
from cacheinf_ros.catalog.specialists.training_set import load_training_set, save_training_set, training_sets
from cacheinf_ros.catalog.trunks import pre_forward, small_trunks, trunk_model
from cacheinf_ros.engine import Preprocessor
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import Model, load_model
from cacheinf_ros.graph.model_factory import build_module

TINY = f"{Path(__file__).parents[2] / 'networks' / 'tiny.py'}:tiny"


@pytest.fixture(scope="module")
def tiny() -> Model:
    """Load a network of two convolutions, a mean and five classes, for images of 48x64 pixels."""
    return load_model(TINY)


@pytest.fixture
def samples() -> list[Labelled]:
    """Return three samples of known class, the second of which is held out, and one of unknown class."""
    rng = np.random.default_rng(0)
    shown = [((48, 64, 3), {"digit": 3}), ((96, 128, 3), {"digit": 0}), ((48, 64, 3), {"digit": 4}), ((9, 9, 3), {})]
    return [
        Labelled(image=rng.integers(0, 256, size, dtype=np.uint8), classes=classes, held_out=number == 1)
        for number, (size, classes) in enumerate(shown)
    ]


def test_features_and_answers_are_those_of_the_network(tiny: Model, samples: list[Labelled]) -> None:
    found = pre_forward([tiny, trunk_model(tiny)], samples)
    logits, features = found.outputs
    network, preprocessor = build_module(TINY), Preprocessor(tiny.card)
    with torch.no_grad():
        inputs = torch.cat([torch.from_numpy(preprocessor.input(s.image)) for s in samples])
        assert features == pytest.approx(network[:-1](inputs).numpy(), abs=1e-5)
        assert logits == pytest.approx(network(inputs).numpy(), abs=1e-5)


def test_a_training_set_holds_what_both_say(tiny: Model, samples: list[Labelled]) -> None:
    (made,) = training_sets(tiny, [trunk_model(tiny)], iter(samples), "digit")
    assert made.generic.tolist() == pre_forward([tiny], samples[:3]).outputs[0].argmax(axis=1).tolist()
    assert (made.features.shape, made.classes) == ((3, 8), 5)
    assert (made.labels.tolist(), made.held_out.tolist()) == ([3, 0, 4], [False, True, False])


def test_samples_must_be_there_and_of_known_classes(tiny: Model, samples: list[Labelled]) -> None:
    with pytest.raises(CatalogError, match="no pictures to learn from"):
        training_sets(tiny, [trunk_model(tiny)], samples, "letter")
    strange = Labelled(image=samples[0].image, classes={"digit": 5}, held_out=False)
    with pytest.raises(CatalogError, match=r"'digit' has class 5; .*tiny knows 5 classes"):
        training_sets(tiny, [trunk_model(tiny)], [*samples, strange], "digit")


def test_it_is_read_as_it_was_written(tiny: Model, samples: list[Labelled], tmp_path: Path) -> None:
    trunk, path = trunk_model(tiny), tmp_path / "tiny.safetensors"
    (made,) = training_sets(tiny, [trunk], samples, "digit")
    save_training_set(made, path)
    again = load_training_set(path, trunk)
    assert (again.trunk, again.classes) == (made.trunk, made.classes)
    for name in ("features", "labels", "generic", "held_out"):
        assert np.array_equal(getattr(again, name), getattr(made, name))


def test_files_that_do_not_fit_are_named(tiny: Model, samples: list[Labelled], tmp_path: Path) -> None:
    trunk, path = trunk_model(tiny), tmp_path / "set.safetensors"
    (made,) = training_sets(tiny, [trunk], samples, "digit")
    with pytest.raises(CatalogError, match=r"set\.safetensors cannot be read"):
        load_training_set(path, trunk)
    save_training_set(made, path)
    with pytest.raises(CatalogError, match=r"other weights than .*relu"):
        load_training_set(path, trunk_model(tiny, "relu"))
    arrays, said = load_file(path), {"format": "cacheinf features 1", "trunk": made.trunk, "classes": "4"}
    save_file(arrays, path, said)
    with pytest.raises(CatalogError, match="classes beyond its 4"):
        load_training_set(path, trunk)
    save_file({**arrays, "labels": arrays["labels"][:2]}, path, {**said, "classes": "5"})
    with pytest.raises(CatalogError, match="wrong types or lengths"):
        load_training_set(path, trunk)
    for features in (arrays["features"][:, :4], np.full_like(arrays["features"], np.nan)):
        save_file({**arrays, "features": np.ascontiguousarray(features)}, path, {**said, "classes": "5"})
        with pytest.raises(CatalogError, match="no 8 finite features"):
            load_training_set(path, trunk)
    save_file(arrays, path)
    with pytest.raises(CatalogError, match="holds no training set"):
        load_training_set(path, trunk)
    path.write_bytes(b"nonsense")
    with pytest.raises(CatalogError, match="cannot be read"):
        load_training_set(path, trunk)


def test_small_trunks_end_early(tiny: Model) -> None:
    """FLOPs are 24*32 pixels * 2*8*27, 12*16 pixels * 2*8*72, and 80 of the head: 60 % for the first, all for both."""
    assert [trunk.name.partition("@")[2] for trunk in small_trunks(tiny)] == ["relu"]
    assert len(small_trunks(tiny, most_flops=1.0)) == 2
    assert small_trunks(tiny, most_flops=0.5) == ()
