# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The measurements of ``cacheinf bench`` on a user's own model and clip; the papers' experiments are in benchmarks/."""

from cacheinf_ros.bench.camera_benchmark import run_camera_benchmark
from cacheinf_ros.bench.contenders import ALL_CONTENDERS, AnyContender, Contender, contenders_on
from cacheinf_ros.bench.engine_benchmark import run_engine_benchmark, warm_up_frames
from cacheinf_ros.bench.learning import frames_to_learn
from cacheinf_ros.bench.merging import TORCHVISION_MODELS, run_merging_benchmark
from cacheinf_ros.bench.own_way import OwnSettings
from cacheinf_ros.bench.server_way import ServerLink
from cacheinf_ros.bench.shots import Change, changing, recorded
from cacheinf_ros.bench.stream import run_stream_benchmark
from cacheinf_ros.bench.stream_plan import BOUNDED, ENGINES, StreamPlan, engines_on
from cacheinf_ros.bench.stream_run import StreamRun
from cacheinf_ros.bench.timing import summary

__all__ = [
    "ALL_CONTENDERS", "BOUNDED", "ENGINES", "TORCHVISION_MODELS", "AnyContender", "Change",
    "Contender", "OwnSettings", "ServerLink", "StreamPlan", "StreamRun", "changing", "contenders_on", "engines_on",
    "frames_to_learn", "recorded", "run_camera_benchmark", "run_engine_benchmark", "run_merging_benchmark",
    "run_stream_benchmark", "summary", "warm_up_frames",
]  # fmt: skip

# Subpackages with an interface of their own.
__all__ += ["advice", "page"]
# Importing these loads ROS, which other benchmarks do without.
__all__ += ["node_answers", "replayed", "stream_nodes"]
