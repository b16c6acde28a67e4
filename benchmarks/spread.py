# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Draws docs/spread.png: how far a change spreads through scenenet, exactly and in bounded mode.

python -m benchmarks.spread
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from cacheinf_ros.engine import Engine, EngineConfig, Mode
from cacheinf_ros.graph import load_model
from cacheinf_ros.graph.ir import Conv
from cacheinf_ros.matching import MatcherName, MatchingConfig, MatchingStream
from cacheinf_ros.sources import open_source

FRAMES, CALIBRATION, SHOWN = 20, 8, 4


def main() -> None:
    """Run both modes over the same frames and show the active pixels of a few convolutions at the last one."""
    model = load_model("scenenet")
    stream = MatchingStream(MatchingConfig(matcher=MatcherName.IDENTITY, expiry=10_000))
    images = [frame.image for frame in islice(open_source("scene:fixed"), FRAMES)]
    maps = [stream.match(image) for image in images]
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    axes = figure.subplots(2, SHOWN + 1)
    for row, mode in zip(axes, (Mode.EXACT, Mode.BOUNDED), strict=True):
        engine = Engine(model, EngineConfig(mode=mode, max_error=0.05, max_missed=0.3))
        if mode is Mode.BOUNDED:
            engine.calibrate(images[:CALIBRATION], maps[:CALIBRATION])
        engine.run(images[CALIBRATION], None)
        for image, cache_map in zip(images[CALIBRATION + 1 :], maps[CALIBRATION + 1 :], strict=True):
            result = engine.run(image, cache_map)
        row[0].imshow(image[:, :, ::-1])
        row[0].set_ylabel(f"{mode.value}\n{result.active_share:.1%} of the FLOPs")
        steps = [(o, active) for o, active in engine.program.profile.timeable() if isinstance(o, Conv)]
        for axis, i in zip(row[1:], np.linspace(0, len(steps) - 3, SHOWN).astype(int), strict=True):
            active = steps[i][1]
            axis.imshow(active.mask, cmap="inferno", vmin=0, vmax=1, interpolation="nearest")
            axis.set_xlabel(f"convolution {i + 1}: {active.count / active.pixels:.1%}")
    for axis in axes.ravel():
        axis.set(xticks=[], yticks=[])
    figure.savefig(Path(__file__).parents[1] / "docs" / "spread.png", dpi=90)


if __name__ == "__main__":
    main()
