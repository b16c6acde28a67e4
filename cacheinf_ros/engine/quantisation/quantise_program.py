# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Finds a model's scales on some frames, as a separate program that :func:`.scales_of_frames` starts.

It has the lowest priority, and ends when its standard input is closed, that is with its parent, whose files it then
removes.
"""

from __future__ import annotations

from pathlib import Path

from cacheinf_ros.background_process import given_folder

GRAPH, CARD, FRAMES, SCALES = "graph.safetensors", "card.json", "frames.npy", "scales.npz"
"""The files in the folder that the program is given: it reads the first three, and writes the last one."""


def _main(folder: Path) -> None:
    # imported here, as it takes seconds, in which the program must already notice the end of its parent
    import numpy as np

    from cacheinf_ros.engine.quantisation.quantiser import quantise
    from cacheinf_ros.engine.quantisation.scales import scales_bytes
    from cacheinf_ros.graph import DeferredGraph, Model, ModelCard, decode_graph

    graph = decode_graph(memoryview((folder / GRAPH).read_bytes()))
    card = ModelCard.model_validate_json((folder / CARD).read_bytes())
    model = Model(module=DeferredGraph(graph), graph=graph, card=card)
    found = quantise(model, list(np.load(folder / FRAMES)), threads=1)
    (folder / SCALES).write_bytes(scales_bytes(found.scales))


if __name__ == "__main__":
    _main(given_folder())
