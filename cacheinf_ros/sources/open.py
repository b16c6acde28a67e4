# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Opens the source of frames that a user's reference names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cacheinf_ros.config import expanded
from cacheinf_ros.errors import ConfigError, SourceError
from cacheinf_ros.sources.folder import FolderSource
from cacheinf_ros.sources.frame import Source
from cacheinf_ros.sources.pair import PairSource
from cacheinf_ros.sources.scenes import EncodedScene, Scene, parse_scene
from cacheinf_ros.sources.value_range import ValueRange, parse_range
from cacheinf_ros.sources.video import VideoSource
from cacheinf_ros.sources.voxel_grid import VoxelGrid, parse_voxel_grid

_SCENE = "scene:"
_BAG_SUFFIXES = (".mcap", ".db3", ".bag")
_VALUES, _VOXELS = "?values=", "?voxels="
_BESIDE = " + "
_FORMS = (
    "a video file, a folder of images, a bag (or bag:/topic), either with ?values=7000..9000, "
    "a bag's clouds of points with ?voxels=CELLS,X,Y,Z, or scene:NAME; two with "
    f"'{_BESIDE}' between them are shown side by side"
)


def open_source(reference: str) -> Source:
    """Open a source of frames by reference.

    Args:
        reference: "clip.mp4", "~/clip.mp4", "bag_folder", "file.mcap", "bag_folder:/topic", "folder/", or
            "scene:NAME?seed=1&size=480x640&frames=100" with the parameters of
            :class:`~cacheinf_ros.sources.scenes.SceneConfig`; with ``crf=23`` it is encoded with H.264. Behind a bag or
            folder, "?values=7000..9000" says which of a camera's raw values are black and white. Behind a bag,
            "?voxels=256x256x32,0..51.2,-25.6..25.6,-2..4.4" says which cells show a topic's clouds of points, see
            :class:`~cacheinf_ros.sources.voxel_grid.VoxelGrid`. "left.mp4 + right.mp4" shows two of them side by side.

    Raises:
        SourceError: the source does not exist, cannot be read, or holds no picture.
    """
    if pair := _split_pair(reference):
        if any(voxel_grid_of(side) for side in pair):
            raise SourceError(f"{reference}: clouds of points are shown alone, without a picture beside them")
        return PairSource(*map(open_source, pair))
    if reference.startswith(_SCENE):
        scene = Scene(parse_scene(reference.removeprefix(_SCENE)))
        return scene if scene.config.crf is None else EncodedScene(scene)
    reference = expanded(reference)
    try:
        name, shown = _split_shown(reference)
        path, topic = _split_topic(name)
        if not path.exists():
            raise SourceError(f"{path}: no such file or folder; a source is {_FORMS}")
        is_bag = topic is not None or _is_bag(path)
    except OSError as error:
        raise SourceError(f"{reference}: cannot be read ({error.strerror}); check its permissions") from None
    if is_bag:
        return _open_bag(path, topic, shown)
    if isinstance(shown, VoxelGrid):
        raise SourceError(f"{reference}: only bags have clouds of points; leave {_VOXELS} out")
    if path.is_dir():
        return FolderSource(path, shown)
    if path.suffix == ".zstd":
        raise SourceError(f"{path}: a compressed file of a bag is read through its folder: give {path.parent}")
    if shown is not None:
        raise SourceError(f"{reference}: videos have 8 bits; give a bag or a folder, or leave {_VALUES} out")
    return VideoSource(path)


def place_of(reference: str) -> str:
    """Return the same text for all spellings of a recording's path, with its topic; raw values and cells do not count.

    Raises:
        SourceError: the range of values, or the cells, cannot be read.
    """
    if pair := _split_pair(reference):
        return _BESIDE.join(map(place_of, pair))
    if reference.startswith(_SCENE):
        return reference
    path, topic = _split_topic(_split_shown(expanded(reference))[0])
    return f"{path.resolve()}:{topic}" if topic else str(path.resolve())


def value_range_of(reference: str) -> ValueRange | None:
    """Return which raw values a reference says are black and white; None: it does not say, or names two sources.

    Raises:
        SourceError: it says so in a form that cannot be read.
    """
    shown = _shown(reference)
    return shown if isinstance(shown, ValueRange) else None


def voxel_grid_of(reference: str) -> VoxelGrid | None:
    """Return the cells by which a reference has clouds of points shown; None: it has none, or names two sources.

    Raises:
        SourceError: it says so in a form that cannot be read.
    """
    shown = _shown(reference)
    return shown if isinstance(shown, VoxelGrid) else None


def halves_of(reference: str) -> tuple[str, ...]:
    """Return the two sources that a reference has shown side by side, or itself; raises as :func:`open_source` does."""
    return _split_pair(reference) or (reference,)


def label_of(reference: str) -> str:
    """Return what a recording is called in reports: its file, and its topic where the reference names one."""
    if pair := _split_pair(reference):
        return _BESIDE.join(map(label_of, pair))
    if reference.startswith(_SCENE):
        return reference
    path, topic = _split_topic(reference)
    return f"{path.resolve().name}:{topic}" if topic else path.resolve().name


def _split_pair(reference: str) -> tuple[str, str] | None:
    """Split "left.mp4 + right.mp4"; None where no two sources are named: a path that exists is never split."""
    left, plus, right = reference.partition(_BESIDE)
    if not plus or _is_place(reference):
        return None
    if _BESIDE in right or not left.strip() or not right.strip():
        raise SourceError(f"{reference}: give two sources with a plus between them, as in 'left.mp4 + right.mp4'")
    return left.strip(), right.strip()


def _is_place(reference: str) -> bool:
    """Tell whether there is a file or folder of this name, apart from the topic and the raw values behind it."""
    try:
        return _split_topic(_split_shown(expanded(reference))[0])[0].exists()
    except (OSError, SourceError):  # a name that is too long, a folder that nobody may look into, or no range
        return False


def _open_bag(path: Path, topic: str | None, shown: ValueRange | VoxelGrid | None) -> Source:
    # imported here, as rosbags is slow to import, and optional: no ROS distribution packages it
    try:
        from cacheinf_ros.sources.bag import BagSource
    except ModuleNotFoundError as error:
        raise SourceError(f"{path}: reading bags needs a Python package ({error}); pip install rosbags") from None
    return BagSource(path, topic, shown)


def _shown(reference: str) -> ValueRange | VoxelGrid | None:
    """Return what a reference to one source says of how its messages become pictures."""
    return None if _split_pair(reference) or reference.startswith(_SCENE) else _split_shown(expanded(reference))[1]


def _split_shown(reference: str) -> tuple[str, ValueRange | VoxelGrid | None]:
    """Split what is behind a question mark off, and read it; a path that exists as it stands is never split."""
    if _VALUES in reference and _VOXELS in reference and not Path(reference).exists():
        raise SourceError(f"{reference}: {_VALUES} is for images and {_VOXELS} for clouds of points; leave one out")
    parsers: tuple[tuple[str, Callable[[str], ValueRange | VoxelGrid]], ...] = (
        (_VALUES, parse_range),
        (_VOXELS, parse_voxel_grid),
    )
    for name, parse in parsers:
        path, separator, text = reference.rpartition(name)
        if not separator or Path(reference).exists():
            continue
        try:
            return path, parse(text)
        except ConfigError as error:
            raise SourceError(f"{reference}: {error}") from None
    return reference, None


def _split_topic(reference: str) -> tuple[Path, str | None]:
    """Split "bag:/camera/image" into (bag, /camera/image); a path that exists as it stands is never split."""
    path, separator, topic = reference.rpartition(":/")
    if not separator or Path(reference).exists():
        return Path(reference), None
    return Path(path), "/" + topic


def _is_bag(path: Path) -> bool:
    if path.is_dir():
        return (path / "metadata.yaml").exists() or any(child.suffix in _BAG_SUFFIXES for child in path.iterdir())
    return path.suffix.lower() in _BAG_SUFFIXES
