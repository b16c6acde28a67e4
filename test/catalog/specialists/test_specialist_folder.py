# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Data for specialists on disk is read as written, refused where broken, and sufficient to make one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from coloured import LABELS, SHALLOW, TRUNK_BYTES, made_specialise, picture
from safetensors.numpy import load_file, save_file

from cacheinf_ros.catalog.build.add_specialists import variant_cuts
from cacheinf_ros.catalog.catalog_folder import CatalogFolder, read_catalog
from cacheinf_ros.catalog.labelled_pictures import Labelled
from cacheinf_ros.catalog.specialists.dominance import Dominance, Pair
from cacheinf_ros.catalog.specialists.retarget import Made, Rejected, load_trunks, make_specialist
from cacheinf_ros.catalog.specialists.specialist_folder import (
    SpecialiseFolder,
    original_name,
    read_specialise,
    reserving,
)
from cacheinf_ros.catalog.trunks import pre_forward
from cacheinf_ros.catalog.variant import Place
from cacheinf_ros.disk_cache import digest
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import Model

RED, GREEN, PAIR = LABELS.index("red"), LABELS.index("green"), Pair(n=7, p=0.95)
SHALLOW_IN_8_BITS = replace(SHALLOW, bits=8)
DOMINANCE = Dominance(pair=PAIR, classes=(RED, GREEN), shares=(0.6, 0.4))


@pytest.fixture(scope="module")
def trunks(coloured: tuple[CatalogFolder, SpecialiseFolder]) -> dict[str, Model]:
    catalog, folder = coloured
    return load_trunks(folder.file.trunks, lambda _: catalog.load(original_name(catalog)))


@pytest.fixture(scope="module")
def of_a_variant(tmp_path_factory: pytest.TempPathFactory) -> tuple[CatalogFolder, SpecialiseFolder]:
    folder = tmp_path_factory.mktemp("of_a_variant")
    return made_specialise(folder, trunk_of=SHALLOW.name, recipes=(SHALLOW, SHALLOW_IN_8_BITS))


def test_a_specialist_is_made_from_what_was_stored(
    coloured: tuple[CatalogFolder, SpecialiseFolder], trunks: dict[str, Model]
) -> None:
    outcome = make_specialist(coloured[1], DOMINANCE, "8bit", trunks)
    assert isinstance(outcome, Made) and outcome.trunk == "relu"
    assert outcome.specialist.expected.accuracy >= outcome.specialist.expected.generic_accuracy
    shown = [Labelled(image=picture(c, 7), classes={}, held_out=False) for c in range(len(LABELS))]
    (features,) = pre_forward([trunks["relu"]], shown).outputs
    said = [outcome.specialist.answer(each).class_id for each in features]
    assert [c for c in said if c not in (RED, GREEN)] == [None] * (len(LABELS) - 2)


def test_one_that_is_not_worth_it_is_refused_and_one_not_wanted_is_not_made(
    coloured: tuple[CatalogFolder, SpecialiseFolder], trunks: dict[str, Model]
) -> None:
    slow = replace(coloured[1], file=coloured[1].file.changed(variant_ms={"original": 0.51}))
    outcome = make_specialist(slow, DOMINANCE, "original", trunks)
    assert isinstance(outcome, Rejected) and outcome.why.startswith("relu: to be as accurate, the specialist would")
    assert make_specialist(coloured[1], DOMINANCE, "original", trunks, cancelled=lambda: True) is None


def test_skews_are_looked_for_where_a_trunk_is_faster(coloured: tuple[CatalogFolder, SpecialiseFolder]) -> None:
    _, folder = coloured
    assert folder.pairs_for("original") == (PAIR, Pair(n=7, p=0.9))
    assert folder.pairs_for("unheard of") == ()
    fast = replace(folder, file=folder.file.changed(variant_ms={"original": 2.0, "8bit": 0.4}))
    assert fast.pairs_for("8bit") == () and fast.pairs_for("original")


def test_the_answers_are_those_of_the_variant(
    coloured: tuple[CatalogFolder, SpecialiseFolder], trunks: dict[str, Model], tmp_path: Path
) -> None:
    _, folder = coloured
    shutil.copytree(folder.path, tmp_path / "specialise")
    path = tmp_path / "specialise" / "answers.safetensors"
    answers = load_file(path)

    def with_answers(content: dict[str, np.ndarray]) -> SpecialiseFolder:
        save_file(content, path)
        return replace(folder, path=path.parent, file=folder.file.changed(answers=digest(path)))

    copied = with_answers({**answers, "8bit": np.zeros_like(answers["8bit"])})
    entry = folder.file.trunks[0]
    assert not copied.samples(entry, trunks["relu"], "8bit").generic.any()
    assert copied.samples(entry, trunks["relu"], "original").generic.any()
    copied = with_answers({"original": answers["original"][:3]})
    for variant in ("original", "8bit"):
        with pytest.raises(CatalogError, match="does not fit the training sets beside it; build the catalog anew"):
            copied.samples(entry, trunks["relu"], variant)


def test_a_variant_is_specialised_before_others_and_not_before_its_like(
    of_a_variant: tuple[CatalogFolder, SpecialiseFolder],
) -> None:
    """The variant of 8 bits of the same architecture is no faster."""
    catalog, folder = of_a_variant
    (entry,) = folder.file.trunks
    assert entry.name == f"relu of {SHALLOW.name}"
    for variant in ("original", "8bit"):
        assert folder.trunks_for(PAIR, variant) == (entry,) and PAIR in folder.pairs_for(variant)
    for recipe in (SHALLOW, SHALLOW_IN_8_BITS):
        assert folder.trunks_for(PAIR, recipe.name) == () == folder.pairs_for(recipe.name)
    outcome = make_specialist(folder, DOMINANCE, "original", load_trunks([entry], catalog.network))
    assert isinstance(outcome, Made) and outcome.trunk == entry.name
    plain = {variant.name: variant.costs[Place.DEVICE].memory_bytes for variant in catalog.catalog.variants}
    for variant in reserving(catalog).variants:
        more = TRUNK_BYTES if variant.name in ("original", "8bit") else 0
        assert variant.costs[Place.DEVICE].memory_bytes == plain[variant.name] + more


def test_of_each_cheaper_architecture_the_most_accurate_variant_is_cut(
    of_a_variant: tuple[CatalogFolder, SpecialiseFolder],
) -> None:
    catalog, _ = of_a_variant
    variants = {entry.name: catalog.load(entry.name) for entry in catalog.file.variants}
    (cut,) = variant_cuts(catalog, variants)
    assert cut.variant == SHALLOW.name
    assert variants[cut.variant].graph.operators[-1].inputs == (cut.tensor,)
    variants.pop(SHALLOW.name)
    assert [cut.variant for cut in variant_cuts(catalog, variants)] == [SHALLOW_IN_8_BITS.name]
    variants["original"] = variants[SHALLOW_IN_8_BITS.name]  # nothing is cheaper than this
    assert not list(variant_cuts(catalog, variants))


def test_memory_is_reserved_on_the_device(coloured: tuple[CatalogFolder, SpecialiseFolder], tmp_path: Path) -> None:
    catalog, _ = coloured
    for before, after in zip(catalog.catalog.variants, reserving(catalog).variants, strict=True):
        more = after.costs[Place.DEVICE].memory_bytes - before.costs[Place.DEVICE].memory_bytes
        assert more == TRUNK_BYTES
    shutil.copytree(catalog.path, tmp_path / "plain", ignore=shutil.ignore_patterns("specialise"))
    plain = read_catalog(tmp_path / "plain")
    assert read_specialise(plain) is None and reserving(plain) == plain.catalog


def _edit(**values: object) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / "specialise.yaml"
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | values))

    return edit


def _of_variant(name: str) -> Callable[[Path], None]:
    """Return an edit that says that the only trunk was cut from another variant."""

    def edit(folder: Path) -> None:
        path = folder / "specialise.yaml"
        content = yaml.safe_load(path.read_text())
        for trunk in (*content["trunks"], *(trunk for pair in content["pairs"] for trunk in pair["trunks"])):
            trunk["variant"] = name
        path.write_text(yaml.safe_dump(content))

    return edit


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "specialise.yaml").unlink(), r"specialise\.yaml cannot be read"),
        (lambda folder: (folder / "specialise.yaml").write_text("- 1"), r"specialise\.yaml must be a mapping"),
        (lambda folder: (folder / "trunk-1.safetensors").unlink(), r"trunk-1\.safetensors does not exist"),
        (lambda folder: (folder / "trunk-1.safetensors").write_bytes(b"x"), r"trunk-1\.safetensors has changed"),
        (lambda folder: (folder / "answers.safetensors").write_bytes(b"x"), r"answers\.safetensors has changed"),
        (_edit(format=2), r"specialise\.yaml: format = 2"),
        (_edit(classes=7), "a skew to all of 7 classes is none"),
        (_edit(variant_ms={"other": 1.0}), "names variants that the catalog has not: other"),
        (_edit(trunks=[]), "trunks"),
        (_of_variant("other"), "names variants that the catalog has not: other"),
        (_edit(variant_ms={"original": float("nan")}), "variant_ms"),
    ],
)
def test_what_is_broken_is_named_with_the_remedy(
    spoil: Callable[[Path], None], message: str, coloured: tuple[CatalogFolder, SpecialiseFolder], tmp_path: Path
) -> None:
    shutil.copytree(coloured[0].path, tmp_path / "copy")
    spoil(tmp_path / "copy" / "specialise")
    with pytest.raises(CatalogError, match=message) as error:
        read_specialise(read_catalog(tmp_path / "copy"))
    assert "build the catalog anew with --specialise, or remove" in str(error.value)


@pytest.mark.parametrize("name", ["trunk-1", "answers"])
def test_what_changes_after_the_catalog_was_read_teaches_no_specialist(
    name: str, coloured: tuple[CatalogFolder, SpecialiseFolder], tmp_path: Path
) -> None:
    shutil.copytree(coloured[0].path, tmp_path / "copy")
    file = tmp_path / "copy" / "specialise" / f"{name}.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    catalog = read_catalog(tmp_path / "copy")
    folder = read_specialise(catalog, compares=False)
    assert folder is not None
    entry = folder.file.trunks[0]
    trunk = load_trunks([entry], lambda _: catalog.network(original_name(catalog)))[entry.name]
    with pytest.raises(CatalogError, match=f"{name}.safetensors has changed"):
        folder.samples(entry, trunk, next(iter(folder.file.variant_ms)))


def test_files_are_those_that_were_summed(coloured: tuple[CatalogFolder, SpecialiseFolder]) -> None:
    _, folder = coloured
    assert digest(folder.path / "trunk-1.safetensors") == folder.file.trunks[0].sha256
    assert digest(folder.path / "answers.safetensors") == folder.file.answers


def test_pairs_name_trunks_that_are_there(coloured: tuple[CatalogFolder, SpecialiseFolder], tmp_path: Path) -> None:
    trunk = coloured[1].file.trunks[0].model_dump() | {"tensor": "elsewhere"}
    shutil.copytree(coloured[0].path, tmp_path / "copy")
    _edit(trunks=[trunk])(tmp_path / "copy" / "specialise")
    with pytest.raises(CatalogError, match="pairs name trunks that are not there: relu"):
        read_specialise(read_catalog(tmp_path / "copy"))
