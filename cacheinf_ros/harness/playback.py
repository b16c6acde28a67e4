# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Plays a source through running nodes and collects their messages, without ``ros2 launch``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cacheinf_ros.harness.processes import NodeCommand, NodeGroup, NodeProcess, ProcessError
from cacheinf_ros.install_paths import share_folder
from cacheinf_ros.nodes.recorder import Recorded, RecordedMap, RecordedPromise, Recorder
from cacheinf_ros.pipeline import PREPARING, MapUpdate, wait_until

FIRST_STAMP_NS = 1_000_000_000
"""The stamp of a replayed source's first frame: its time begins at one second (see replay's parameter ``stamp``)."""
FIRST_FRAMES = 3
"""The number of frames that make bounded mode begin to prepare its dense backends."""
IMAGE_TOPIC = "camera/image"
RESULT_TOPIC = "results"
MAP_TOPIC = "cache_map"
SETTLE_S = 4.0
"""How long replay waits for late participants, who announce themselves every 3 s, which our profiles leave as it is."""
_FAR = 1000  # queue size with which no frame of a recording is lost
_AHEAD = _FAR // 2  # images ahead of the inference node at which replay waits: those under way then fit, too
_UNRECEIVED = 100  # images that replay keeps for a subscriber that DDS has not discovered yet
_QUIET_S = 10.0  # without a new result after the source has ended, the nodes are done
_POLL_S = 0.2
_PREPARED_S = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The messages of the nodes about one source.

    Attributes:
        published: number of images that the replay node published.
        accepted: number of images that the inference node began to work on, by its own count.
        dropped: number of images that newer ones replaced before that.
        results: the results, one per accepted image, in order of arrival.
        links: cache maps by the stamp of their frame, where the recorder listens to them.
        class_maps, promises: see :class:`Recorder`; empty where it does not listen to them.
    """

    published: int
    accepted: int
    dropped: int
    results: list[Recorded]
    links: dict[int, MapUpdate]
    class_maps: list[RecordedMap]
    promises: dict[int, RecordedPromise]

    @property
    def unanswered(self) -> int:
        """The number of images without a result, whether the inference node never had them or did not answer."""
        return max(0, self.published - len(self.results))


def params_file() -> Path:
    """Return the path of the parameters that the launch files use too."""
    return share_folder() / "config" / "cacheinf.yaml"


def lossless(**parameters: bool | int | float | str) -> dict[str, bool | int | float | str]:
    """Return parameters for matcher and inference nodes that are to lose no frame of a recording, and no output.

    A publisher may know of a subscriber seconds before the subscriber knows of it; what is published in between is
    delivered on latched topics only.
    """
    ends = (
        (IMAGE_TOPIC, "subscription"),
        (MAP_TOPIC, "publisher"),
        (MAP_TOPIC, "subscription"),
        (RESULT_TOPIC, "publisher"),
    )
    latched = {f"qos_overrides./{topic}.{end}.durability": "transient_local" for topic, end in ends}
    asked: dict[str, bool | int | float | str] = {
        "image_topic": IMAGE_TOPIC,
        "image_reliability": "reliable",
        "queue_size": _FAR,
        "outputs": "all",
    }
    return {**asked, **latched, **kept_for_recorder(f"/{RESULT_TOPIC}"), **parameters}


def kept_for_recorder(*topics: str) -> dict[str, int]:
    """Return parameters with which a node's messages on these topics (full names) wait for the recorder.

    After a slow frame, the frames that wait are answered at once where the last answer still stands. On a busy machine,
    so many messages, of megabytes where outputs are sent, would exceed the usual queue before they are delivered.
    """
    return {f"qos_overrides.{topic}.publisher.depth": _FAR for topic in topics}


def await_backends(recorder: Recorder, process: NodeProcess) -> None:
    """Wait until a node in bounded mode has prepared its dense backends, because before that its frames are slow.

    Raises:
        ProcessError: it takes too long.
    """
    name = process.command.executable
    if not wait_until(lambda: recorder.said(name).get("dense_backend", PREPARING) != PREPARING, _PREPARED_S):
        raise ProcessError(f"{name} has prepared no dense engine within {_PREPARED_S:g} s: {process.output.strip()}")


def play(
    group: NodeGroup,
    recorder: Recorder,
    *,
    source: str,
    node: str,
    subscribers: int,
    rate: float = 0.0,
    frames: int = 0,
    progress: Callable[[int], None] = lambda results: None,
) -> Played:
    """Play a source once and wait until the nodes have answered.

    Args:
        group: where the replay process is started.
        recorder: a recorder that is listening already.
        node: name of the node whose counts are used: inference or cached_inference.
        subscribers: how many nodes subscribe to the images.
        rate: images per second; 0: the source's own rate.
        frames: number of images to play at most; 0: all.
        progress: called with the number of results so far.

    Raises:
        ProcessError: a node ended, or replay could not play the source.
    """
    recorder.take()
    before = recorder.counts(node)
    replay = group.start(
        NodeCommand(
            executable="replay",
            params_file=params_file(),
            parameters={
                "source": source, "rate": rate, "frames": frames, "image_topic": IMAGE_TOPIC, "stamp": "source",
                "wait_for_subscribers": subscribers, "linger_s": 10.0, "queue_size": _UNRECEIVED, "settle_s": SETTLE_S,
                "wait_for_node": node, "most_ahead": _AHEAD,
                f"qos_overrides./{IMAGE_TOPIC}.publisher.durability": "transient_local",
            },
        )
    )  # fmt: skip
    workers = [process for process in group.processes if process.command.executable != "replay"]
    while not wait_until(lambda: replay.exit_code is not None, _POLL_S):
        progress(len(recorder.results))
        _check(workers)
    if replay.exit_code:
        raise ProcessError(f"replay: {replay.output.strip().splitlines()[-1]}")
    published = int(replay.output.rpartition("published ")[2].split()[0])
    _await_results(recorder, published, workers, progress)
    # diagnostics come once a second: wait for those that know of the last result
    known = before.get("results", 0) + len(recorder.results)
    wait_until(lambda: recorder.counts(node).get("results", 0) >= known, _QUIET_S)
    wait_until(lambda: not recorder.is_behind, _QUIET_S)
    counts = recorder.counts(node)
    class_maps, promises = recorder.class_maps, recorder.promises
    results, links = recorder.take()
    return Played(
        published=published,
        accepted=counts.get("accepted", 0) - before.get("accepted", 0),
        dropped=counts.get("dropped", 0) - before.get("dropped", 0),
        results=results,
        links=links,
        class_maps=class_maps,
        promises=promises,
    )


def _await_results(
    recorder: Recorder, published: int, workers: list[NodeProcess], progress: Callable[[int], None]
) -> None:
    """Wait until there are as many results as images, or none has come for a while."""
    seen = -1
    while seen < min(published, len(recorder.results)) or seen < 0:
        seen = len(recorder.results)
        progress(seen)
        wait_until(lambda seen=seen: len(recorder.results) > seen or seen >= published, _QUIET_S)  # type: ignore[misc]
        _check(workers)


def _check(processes: list[NodeProcess]) -> None:
    for process in processes:
        if process.exit_code is not None:
            raise ProcessError(f"{process.command.executable} ended: {process.output.strip()}")
