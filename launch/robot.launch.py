"""The robot's half: matcher and inference, or both in one process."""

from __future__ import annotations

from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare

from launch import LaunchContext, LaunchDescription

PARAMS_FILE = PathJoinSubstitution([FindPackageShare("cacheinf_ros"), "config", "cacheinf.yaml"])
ARGUMENTS = [
    DeclareLaunchArgument("namespace", default_value="", description="namespace of the nodes"),
    DeclareLaunchArgument("params_file", default_value=PARAMS_FILE, description="YAML file of parameters"),
    DeclareLaunchArgument("image_topic", default_value="", description="the camera's topic; empty: as in params_file"),
    DeclareLaunchArgument("model", default_value="", description="model to run; empty: as in params_file"),
    DeclareLaunchArgument("use_server", default_value="true", description="send frames to a server"),
    DeclareLaunchArgument(
        "offload_policy", default_value="", description="who computes what, with a server; empty: as in params_file"
    ),
    DeclareLaunchArgument("use_sim_time", default_value="false", description="take the time from /clock"),
    DeclareLaunchArgument("log_level", default_value="info", description="debug, info, warn, error"),
    DeclareLaunchArgument(
        "single_process", default_value="false", description="matcher and inference in one process: fewer copies"
    ),
]


def robot_nodes(context: LaunchContext) -> list[Node]:
    """The nodes; an argument that was left empty does not override the file."""

    def argument(name: str) -> str:
        return LaunchConfiguration(name).perform(context)

    def is_true(name: str) -> bool:
        return argument(name).lower() in ("true", "1", "yes", "on")

    overrides = {name: argument(name) for name in ("image_topic", "model", "offload_policy") if argument(name)}
    flags = {name: is_true(name) for name in ("use_server", "use_sim_time")}
    return [
        Node(
            package="cacheinf_ros",
            executable=executable,
            name=executable,
            namespace=argument("namespace"),
            parameters=[argument("params_file"), {**overrides, **flags}],
            arguments=["--ros-args", "--log-level", argument("log_level")],
            output="screen",
        )
        for executable in (["cached_inference"] if is_true("single_process") else ["matcher", "inference"])
    ]


def generate_launch_description() -> LaunchDescription:
    """What ``ros2 launch`` runs."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=robot_nodes)])
