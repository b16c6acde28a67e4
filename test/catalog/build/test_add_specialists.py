# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests from labelled pictures to the data for specialists, and of what cannot be specialised."""

from __future__ import annotations

from pathlib import Path

import cv2
import pytest
from catalogs import TINY, made_catalog
from coloured import COLOURS, LABELS, one_thread, picture
from typer.testing import CliRunner

from cacheinf_ros.catalog.build.add_specialists import SCENES, add_specialise, check_specialisable, labelled_data
from cacheinf_ros.catalog.catalog_folder import CatalogFolder, read_catalog
from cacheinf_ros.catalog.specialists.dominance import Dominance
from cacheinf_ros.catalog.specialists.retarget import Made, load_trunks, make_specialist
from cacheinf_ros.catalog.specialists.specialist_folder import SpecialiseFolder, read_specialise
from cacheinf_ros.catalog.variant import Cost, Place
from cacheinf_ros.cli.catalog import catalogs
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import load_model


def pictures(folder: Path, per_class: int = 32) -> Path:
    for class_id, name in enumerate(LABELS):
        (folder / "colour" / name).mkdir(parents=True)
        for number in range(per_class):
            image = picture(class_id, 1000 * class_id + number)
            cv2.imwrite(str(folder / "colour" / name / f"{number:02}.png"), image)
    return folder


def built(folder: Path, techniques: str) -> tuple[CatalogFolder, SpecialiseFolder, str]:
    """Build a catalog with specialists from 256 labelled pictures; returns it, and what the command printed."""
    out, labelled = folder / "catalog", pictures(folder / "pictures")
    words = ["--held-out", "scene:fixed?size=48x64", "--held-out-frames", "2", "--techniques", techniques]
    with one_thread():
        result = CliRunner().invoke(
            catalogs,
            ["build", COLOURS, "-o", str(out), *words, "--bits", "32", "--specialise", "--labelled", str(labelled),
             "--threads", "1"],
            env={"COLUMNS": "2000"},
        )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "specialists before the original" in result.output and f"256 pictures of {labelled}: colour" in result.output
    catalog = read_catalog(out)
    found = read_specialise(catalog)
    assert found is not None and found.file.classes == 8
    return catalog, found, result.output


def test_built_with_specialists_by_the_command(tmp_path: Path) -> None:
    """Folders are sorted by name, but the model's classes are not: black, blue, cyan, green."""
    catalog, found, _ = built(tmp_path, "smaller-dense")
    assert set(found.file.variant_ms) == {"original"}
    pair = found.pairs_for("original")[0]
    original = catalog.load("original")
    dominance = Dominance(pair=pair, classes=(2, 4), shares=(0.6, 0.4))
    made = make_specialist(found, dominance, "original", load_trunks(found.file.trunks, lambda _: original))
    assert isinstance(made, Made) and made.specialist.expected.generic_accuracy == 1.0


def test_cheaper_variants_are_tried(tmp_path: Path) -> None:
    """Each of them is kept or, where no skew would choose it, dropped, and the command names it."""
    catalog, found, said = built(tmp_path, "fewer-kernels")
    cheaper = {entry.name for entry in catalog.file.variants} - {"original"}
    named = {*(trunk.name for trunk in found.file.trunks), *found.file.dropped}
    assert cheaper and all(any(name.endswith(f" of {variant}") for name in named) for variant in cheaper)
    assert all(name in said for name in named)


def test_nothing_worth_specialising_is_said(tmp_path: Path) -> None:
    """Four pictures of a class are not enough to learn it and to test what was learned."""
    catalog = made_catalog(tmp_path / "tiny", "tiny", {Place.DEVICE: Cost(energy_j=1.0)}, COLOURS)
    data = labelled_data(catalog.load("original"), str(pictures(tmp_path / "pictures", 4)), 60, 0)
    with one_thread(), pytest.raises(CatalogError, match=r"tiny is complete, but has no specialists: .*label more"):
        add_specialise(catalog, data, threads=1)
    assert read_specialise(read_catalog(tmp_path / "tiny")) is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["scenenet"], "model scenenet cannot be specialised: its output is no vector of classes"),
        ([TINY], "tiny.* has no names of classes: give it a card with `labels`"),
        ([COLOURS], "labelled with classes of colours .* are needed in exactly one attribute"),
        ([COLOURS, "--labelled", "/nowhere"], "the pictures in /nowhere cannot be read"),
    ],
)
def test_mistakes_are_told_before_anything_is_built(words: list[str], message: str, tmp_path: Path) -> None:
    out = tmp_path / "catalog"
    result = CliRunner().invoke(catalogs, ["build", *words, "-o", str(out), "--specialise"])
    with pytest.raises(CatalogError, match=message):
        raise result.exception or AssertionError(result.output)
    assert not out.exists()


def test_scenes_are_labelled_for_those_who_know_them() -> None:
    model = load_model("scenenames")
    check_specialisable(model)
    data = labelled_data(model, SCENES, 60, 0)
    first = next(iter(data.samples))
    assert data.attribute == "photograph" and first.classes["photograph"] == 0 and first.image.shape == (240, 320, 3)
