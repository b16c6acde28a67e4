# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Writes results as an MCAP bag that carries the definitions of its messages, so that any tool can read it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from cacheinf_ros.install_paths import share_folder

_TYPE = "cacheinf_ros/msg/InferenceResult"


def write_results(folder: Path, topic: str, results: Iterable[tuple[int, bytes]]) -> None:
    """Write a bag, replacing the one that an earlier run left.

    Args:
        folder: folder of the bag.
        topic: name of the topic in the bag.
        results: pairs of the time in nanoseconds and an InferenceResult in CDR.
    """
    typestore = get_typestore(Stores.LATEST)
    definition = (share_folder() / "msg" / "InferenceResult.msg").read_text(encoding="utf-8")
    typestore.register(get_types_from_msg(definition, _TYPE))
    if (folder / "metadata.yaml").is_file():
        shutil.rmtree(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection(f"/{topic.lstrip('/')}", _TYPE, typestore=typestore)
        for stamp_ns, serialized in results:
            writer.write(connection, stamp_ns, serialized)
