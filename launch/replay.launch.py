"""A video, bag, folder or built-in scene in the place of a camera."""

from __future__ import annotations

from launch.actions import DeclareLaunchArgument, OpaqueFunction, Shutdown
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare

from launch import LaunchContext, LaunchDescription

PARAMS_FILE = PathJoinSubstitution([FindPackageShare("cacheinf_ros"), "config", "cacheinf.yaml"])
ARGUMENTS = [
    DeclareLaunchArgument("source", default_value="", description="video, bag, folder or scene:NAME"),
    DeclareLaunchArgument("rate", default_value="0.0", description="images per second; 0: the source's own rate"),
    DeclareLaunchArgument("loop", default_value="false", description="start again at the end"),
    DeclareLaunchArgument("namespace", default_value="", description="namespace of the node"),
    DeclareLaunchArgument("params_file", default_value=PARAMS_FILE, description="YAML file of parameters"),
    DeclareLaunchArgument("image_topic", default_value="", description="where to publish; empty: as in params_file"),
    DeclareLaunchArgument("publish_clock", default_value="false", description="publish the source's time on /clock"),
    DeclareLaunchArgument("log_level", default_value="info", description="debug, info, warn, error"),
]


def replay_node(context: LaunchContext) -> list[Node]:
    """The node; an argument that was left empty does not override the file. Its end ends the launch."""

    def argument(name: str) -> str:
        return LaunchConfiguration(name).perform(context)

    overrides = {name: argument(name) for name in ("source", "image_topic") if argument(name)}
    flags = {name: argument(name).lower() in ("true", "1", "yes", "on") for name in ("loop", "publish_clock")}
    return [
        Node(
            package="cacheinf_ros",
            executable="replay",
            name="replay",
            namespace=argument("namespace"),
            parameters=[argument("params_file"), {**overrides, **flags, "rate": float(argument("rate"))}],
            arguments=["--ros-args", "--log-level", argument("log_level")],
            output="screen",
            on_exit=Shutdown(reason="the source has ended"),
        )
    ]


def generate_launch_description() -> LaunchDescription:
    """What ``ros2 launch`` runs."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=replay_node)])
