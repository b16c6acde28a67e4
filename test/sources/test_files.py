# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of reading videos and folders of images."""

import os

import cv2
import numpy as np
import pytest

from cacheinf_ros.errors import SourceError
from cacheinf_ros.sources import open_source


def write_video(path, frames=7, fps=12.5):
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), fps, (64, 48))
    assert writer.isOpened()
    for index in range(frames):
        writer.write(np.full((48, 64, 3), 6 * index, np.uint8))
    writer.release()
    return path


def test_video_yields_its_frames_every_time(tmp_path):
    source = open_source(str(write_video(tmp_path / "clip.avi")))
    assert (source.name, source.fps, source.length) == ("clip.avi", 12.5, 7)
    for _ in range(2):
        frames = list(source)
        assert [frame.index for frame in frames] == list(range(7))
        assert [frame.stamp_ns for frame in frames] == [index * 80_000_000 for index in range(7)]
        for frame in frames:
            assert frame.image.shape == (48, 64, 3) and frame.image.dtype == np.uint8
            assert abs(int(frame.image.mean()) - 6 * frame.index) <= 3


def test_a_video_cut_off_in_the_middle_ends_early(tmp_path):
    whole = write_video(tmp_path / "clip.avi", frames=40).read_bytes()
    cut = tmp_path / "cut.avi"
    cut.write_bytes(whole[: len(whole) // 2])
    assert 0 < len(list(open_source(str(cut)))) < 40


@pytest.mark.parametrize("content", [b"", b"this is no video at all" * 100])
def test_what_is_not_a_video_is_refused(tmp_path, content):
    path = tmp_path / "clip.mp4"
    path.write_bytes(content)
    with pytest.raises(SourceError, match=r"clip\.mp4: not a video that OpenCV can decode; convert it"):
        open_source(str(path))


def test_a_model_in_the_place_of_a_recording_is_told(tmp_path):
    path = tmp_path / "detector.onnx"
    path.write_bytes(b"a model")
    with pytest.raises(SourceError, match=r"detector\.onnx is a model, not a recording"):
        open_source(str(path))


def test_a_video_without_pictures_is_refused(tmp_path):
    whole = write_video(tmp_path / "clip.avi", frames=3).read_bytes()
    empty = tmp_path / "empty.avi"
    empty.write_bytes(whole[: whole.index(b"movi") + 4])
    with pytest.raises(SourceError, match=r"empty\.avi: (no picture|not a video)"):
        open_source(str(empty))


def test_a_video_without_permission_is_refused(tmp_path, monkeypatch):
    path = write_video(tmp_path / "clip.avi")
    monkeypatch.setattr(os, "access", lambda *_: False)  # chmod does not stop root
    with pytest.raises(SourceError, match="no permission to read; change it with chmod"):
        open_source(str(path))


def test_folder_in_natural_order(tmp_path):
    for name, value in {"b10.png": 3, "b9.PNG": 2, "a.png": 1, "b11.bmp": 4}.items():
        encoded = cv2.imencode(name[-4:].lower(), np.full((5, 6, 3), value, np.uint8))[1]
        (tmp_path / name).write_bytes(encoded.tobytes())
    (tmp_path / "notes.txt").write_text("not an image")
    source = open_source(f"{tmp_path}/")
    assert (source.name, source.length) == (tmp_path.name, 4)
    assert [int(frame.image[0, 0, 0]) for frame in source] == [1, 2, 3, 4]
    assert [round(frame.stamp_ns * source.fps / 1e9) for frame in source] == [0, 1, 2, 3]


def test_equal_numbers_are_ordered_by_name(tmp_path):
    for name, value in {"1.png": 3, "01.png": 2, "001.png": 1}.items():
        cv2.imwrite(str(tmp_path / name), np.full((5, 6, 3), value, np.uint8))
    assert [int(frame.image[0, 0, 0]) for frame in open_source(str(tmp_path))] == [1, 2, 3]


def test_grey_and_transparent_images_become_bgr(tmp_path):
    cv2.imwrite(str(tmp_path / "1.png"), np.full((4, 4), 7, np.uint8))
    cv2.imwrite(str(tmp_path / "2.png"), np.full((4, 4, 4), 9, np.uint8))
    assert [frame.image.shape for frame in open_source(str(tmp_path))] == [(4, 4, 3)] * 2


def test_folder_without_images_is_refused(tmp_path):
    with pytest.raises(SourceError, match="neither a bag nor a folder of images"):
        open_source(str(tmp_path))


def test_a_damaged_image_is_named(tmp_path):
    (tmp_path / "7.png").write_bytes(b"no png")
    with pytest.raises(SourceError, match=r"7\.png: not a readable picture; remove it"):
        list(open_source(str(tmp_path)))


def test_home_is_found_where_no_shell_has_replaced_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write_video(tmp_path / "clip.avi", frames=2)
    assert open_source("~/clip.avi").length == 2
    (tmp_path / "pictures").mkdir()
    cv2.imwrite(str(tmp_path / "pictures" / "1.png"), np.zeros((4, 4, 3), np.uint8))
    assert open_source("~/pictures").length == 1
    with pytest.raises(SourceError, match=rf"^{tmp_path}/drive\.mcap: no such file"):
        open_source("~/drive.mcap:/camera")


def test_a_missing_path_is_refused():
    with pytest.raises(SourceError, match=r"/nowhere/clip\.mp4: no such file or folder; a source is a video file"):
        open_source("/nowhere/clip.mp4")


def test_masks_beside_pictures_are_no_frames(tmp_path):
    for name in ("0.jpg", "1.jpeg", "2.jpg"):
        cv2.imwrite(str(tmp_path / name), np.full((48, 64, 3), 90, np.uint8))
    mask = np.zeros((48, 64, 3), np.uint8)
    mask[10:20, 30:50], mask[40:44, 5:8] = 255, (0, 0, 128)
    cv2.imwrite(str(tmp_path / "0.png"), mask)
    cv2.imwrite(str(tmp_path / "1.png"), np.zeros((48, 64), np.uint8))
    source = open_source(str(tmp_path))
    assert [path.name for path in source.paths] == ["0.jpg", "1.jpeg", "2.jpg"]
    assert len(list(source)) == 3
    boxes = {(found.x, found.y, found.width, found.height) for found in source.objects(0)}
    assert boxes == {(30, 10, 20, 10), (5, 40, 3, 4)}
    assert (source.objects(1), source.objects(2)) == ((), None)  # nothing in it; nothing known


def test_pictures_without_a_jpeg_of_their_name_are_frames(tmp_path):
    for name in ("a.png", "b.png", "c.jpg"):
        cv2.imwrite(str(tmp_path / name), np.zeros((48, 64, 3), np.uint8))
    assert len(list(open_source(str(tmp_path)))) == 3
