# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Built-in scenes: the same seed gives the same frames, and the truth about them is true."""

import copy

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cacheinf_ros.errors import SourceError
from cacheinf_ros.sources import OBJECT_LABELS, Scene, open_source
from cacheinf_ros.sources.scenes import MotionPreset, SceneConfig

PRESETS = pytest.mark.parametrize("preset", list(MotionPreset), ids=lambda preset: preset.value)
few = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def scene(preset, **values):
    return Scene(SceneConfig(preset=preset, **{"size": (120, 160), "frames": 500, **values}))


@PRESETS
def test_same_seed_same_frames_other_seed_others(preset):
    values = {"noise": 2.0, "drift": 0.2}
    first, again, other = (scene(preset, seed=seed, **values) for seed in (1, 1, 2))
    for index in (0, 7, 7, 3):  # in any order
        np.testing.assert_array_equal(first.frame(index).image, again.frame(index).image)
        assert np.abs(first.frame(index).image.astype(int) - other.frame(index).image).mean() > 5


@PRESETS
def test_frames_come_in_order_and_size(preset):
    source = open_source(f"scene:{preset.value}?frames=4&size=96x128&fps=20")
    frames = list(source)
    assert (source.name, source.fps, source.length) == (f"scene:{preset.value}", 20, 4)
    assert [(frame.index, frame.stamp_ns) for frame in frames] == [(i, i * 50_000_000) for i in range(4)]
    assert all(frame.image.shape == (96, 128, 3) and frame.image.dtype == np.uint8 for frame in frames)


@PRESETS
@few
@given(seed=st.integers(0, 1000), index=st.integers(1, 499))
def test_motion_moves_the_previous_background_onto_this_one(preset, seed, index):
    view = scene(preset, seed=seed, objects=0, noise=0.0)
    previous, current = view.frame(index - 1).image, view.frame(index).image
    truth = view.truth(index)
    size = current.shape[1::-1]
    moved = cv2.warpPerspective(previous, truth.motion.matrix, size, flags=cv2.INTER_LINEAR)
    inside = ~truth.changed
    assert inside.mean() > (0.3 if preset is MotionPreset.PARALLAX else 0.9)  # half of it is the near plane
    error = np.abs(moved.astype(int) - current)[inside].mean()
    # interpolating twice blurs: the bound is what a shift of half a pixel to either side does
    blurred = cv2.blur(current, (3, 3)).astype(int)
    assert error <= np.abs(blurred - current)[inside].mean() + 1
    if truth.motion.shift is not None:
        np.testing.assert_array_equal(moved[inside], current[inside])


@PRESETS
def test_the_camera_moves_unless_fixed_and_stops_at_speed_zero(preset):
    view = scene(preset)
    moving = [view.truth(index).motion.is_none for index in range(1, 20)]
    assert all(moving) if preset is MotionPreset.FIXED else not any(moving[1:])
    assert scene(preset, speed=0.0).truth(9).motion.is_none


@few
@given(seed=st.integers(0, 1000), index=st.integers(1, 499))
def test_a_fixed_scene_changes_only_inside_the_mask(seed, index):
    view = scene(MotionPreset.FIXED, seed=seed)
    differs = (view.frame(index).image != view.frame(index - 1).image).any(axis=2)
    changed = view.truth(index).changed
    assert not (differs & ~changed).any()
    assert differs.any() and changed.mean() < 0.5


@PRESETS
@few
@given(seed=st.integers(0, 1000), index=st.integers(0, 499))
@example(seed=11, index=341)
@example(seed=45, index=19)
def test_objects_are_where_the_truth_says(preset, seed, index):
    """Objects are drawn over two backgrounds that differ by 128: what has the colour of one shows on the other."""
    view = scene(preset, seed=seed, noise=0.0)
    other = copy.copy(view)
    other.background = lambda index: view.background(index) + np.uint8(128)
    drawn = np.any([each.frame(index).image != each.background(index) for each in (view, other)], axis=(0, 3))
    truth = view.truth(index)
    covered = np.zeros_like(drawn)
    for found in truth.objects:
        box = np.zeros_like(drawn)
        box[found.y : found.y + found.height, found.x : found.x + found.width] = True
        assert found.x >= 0 and found.y >= 0 and box.sum() == found.width * found.height  # whole in view
        assert 0 <= found.class_id < len(OBJECT_LABELS) and found.mask.any() and not (found.mask & ~box).any()
        assert not (covered & found.mask).any()  # a pixel shows one object
        assert not (found.mask & ~drawn).any()
        covered |= found.mask
    assert not (drawn & ~truth.changed).any()


def test_objects_move_a_little_each_frame_and_reach_everywhere():
    view = scene(MotionPreset.FIXED, objects=1, frames=3000, size=(240, 320))
    places = np.array([(found.x, found.y) for i in range(3000) for found in view.truth(i).objects])
    assert np.abs(np.diff(places, axis=0)).max() <= 4
    assert (np.ptp(places, axis=0) >= (250, 170)).all()


def test_of_covering_objects_the_hidden_one_is_left_out():
    view = scene(MotionPreset.FIXED, objects=60, size=(96, 96))
    found = view.truth(5).objects
    assert 0 < len(found) < 60
    masks = [one.mask for one in found]
    assert np.sum(masks, axis=0).max() == 1


def test_classes_are_dealt_out_evenly():
    found = scene(MotionPreset.FIXED, objects=10, size=(480, 640), seed=4)
    assert sorted(track.sprite.class_id for track in found._tracks) == sorted([*range(5), *range(5)])


@pytest.mark.parametrize("level", [1.0, 4.0])
def test_noise_has_the_asked_spread_and_changes_every_frame(level):
    clean, noisy = (scene(MotionPreset.FIXED, noise=noise) for noise in (0.0, level))
    middle = (clean.frame(0).image > 40) & (clean.frame(0).image < 215)  # where it is not cut off
    first, second = (noisy.frame(i).image.astype(float) for i in (0, 1))
    assert (first - clean.frame(0).image)[middle].std() == pytest.approx(level, rel=0.1)
    assert (second - first)[middle & ~noisy.truth(1).changed[:, :, None]].std() == pytest.approx(
        level * 2**0.5, rel=0.1
    )


def test_only_a_fixed_camera_is_free_of_noise_by_default():
    assert [SceneConfig(preset=preset).noise_level for preset in MotionPreset] == [0, 1, 1, 1, 1, 1]
    assert SceneConfig(preset=MotionPreset.PAN, noise=0).noise_level == 0


def test_drift_changes_brightness_slowly_up_and_down():
    plain, drifting = (scene(MotionPreset.FIXED, objects=0, drift=drift) for drift in (0.0, 0.3))
    means = np.array([drifting.frame(i).image.mean() for i in range(0, 300, 5)]) / plain.frame(0).image.mean()
    assert 1.1 < means.max() <= 1.31 and 0.69 <= means.min() < 0.75
    assert np.abs(np.diff(means)).max() < 0.06


def test_a_long_pan_stays_exact_after_going_round_the_world():
    view = scene(MotionPreset.PAN, objects=0, noise=0.0, frames=100_000)
    columns = view._world.shape[1]
    np.testing.assert_array_equal(view.background(50), view.background(50 + 10 * columns))  # 3 pixels per frame


def test_the_reference_sets_every_parameter():
    view = open_source(
        "scene:turn?seed=9&size=64x80&frames=7&fps=15&speed=0.5&objects=2&noise=3&drift=0.1&gallery=train"
    )
    expected = {"seed": 9, "size": (64, 80), "frames": 7, "fps": 15.0, "speed": 0.5, "objects": 2}
    assert expected.items() <= view.config.model_dump().items()
    assert (view.config.preset, view.config.noise, view.config.gallery.value) == (MotionPreset.TURN, 3.0, "train")


@pytest.mark.parametrize(
    ("reference", "complaint"),
    [
        ("scene:street", "no built-in scene 'street'; choose from fixed, pan, handheld, forward, turn"),
        ("scene:", "no built-in scene ''"),
        ("scene:pan?sed=1", "sed = '1'.*parameters are crf, drift, enter, fps, frames"),
        ("scene:pan?seed=x", "seed = 'x'"),
        ("scene:pan?size=480", "size"),
        ("scene:pan?size=1x1", "size.*greater than or equal to 32"),
        ("scene:pan?noise=-1", "noise = '-1'"),
        ("scene:pan?seed", "write parameters as"),
    ],
)
def test_unusable_references_are_explained(reference, complaint):
    with pytest.raises(SourceError, match=complaint):
        open_source(reference)


def test_frames_outside_the_scene_are_refused():
    with pytest.raises(SourceError, match="frames 0 to 499, not 500; raise frames="):
        scene(MotionPreset.FIXED).frame(500)


def test_missing_photographs_are_explained(monkeypatch):
    monkeypatch.setattr("cacheinf_ros.sources.scenes.photographs.find_spec", lambda name: None)
    with pytest.raises(SourceError, match="pip install scikit-image"):
        scene(MotionPreset.FIXED)


@few
@given(seed=st.integers(0, 1000))
def test_objects_come_in_from_the_sides_one_after_another(seed):
    view = scene(MotionPreset.FIXED, seed=seed, enter=30, objects=3)
    empty = view.frame(0).image
    for index in (1, 30):
        np.testing.assert_array_equal(view.frame(index).image, empty)
        assert not view.truth(index).objects and not view.objects(index)
    assert 0 < (view.frame(32).image != empty).any(axis=(0, 2)).sum() < 20  # a few columns at one side
    counts = [len(view.objects(index)) for index in range(30, 200)]
    assert counts[0] == 0 and max(counts) >= 2  # at most one is hidden
    for found in view.truth(45).objects:
        assert found.x >= 0 and found.x + found.width <= 160
        assert found.x == 0 or found.x + found.width == 160 or found.width >= 9


@pytest.mark.parametrize("reference", ["fixed?enter=3&drift=0.2&noise=1", "pan?seed=2"])
def test_encoded_scenes_show_the_same_with_the_codec_s_noise(reference):
    pytest.importorskip("av", reason="encoding needs PyAV")
    size = "size=96x128&frames=8&objects=2"
    fine, coarse, plain = (open_source(f"scene:{reference}&{size}{crf}") for crf in ("&crf=18", "&crf=40", ""))
    frames = [list(source) for source in (fine, coarse, plain)]
    assert [len(each) for each in frames] == [8, 8, 8]
    for a, b, c in zip(*frames, strict=True):
        near, far = (np.abs(each.image.astype(float) - c.image).mean() for each in (a, b))
        assert 0 < near < far < 25
        assert (a.index, a.stamp_ns) == (c.index, c.stamp_ns)
        assert fine.objects(a.index) == plain.objects(a.index)
    for again, frame in zip(fine, frames[0], strict=True):
        np.testing.assert_array_equal(again.image, frame.image)
    assert (fine.fps, fine.length, fine.name) == (30.0, 8, f"{plain.name}, crf 18")


def test_an_odd_size_cannot_be_encoded():
    pytest.importorskip("av", reason="encoding needs PyAV")
    with pytest.raises(SourceError, match=r"H\.264 needs an even height and width, not 95x128"):
        next(iter(open_source("scene:fixed?size=95x128&crf=23")))
