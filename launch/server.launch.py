"""The server's half: runs the frames that robots send."""

from __future__ import annotations

from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare

from launch import LaunchContext, LaunchDescription

PARAMS_FILE = PathJoinSubstitution([FindPackageShare("cacheinf_ros"), "config", "cacheinf.yaml"])
ARGUMENTS = [
    DeclareLaunchArgument("namespace", default_value="", description="namespace of the robots' and the server's nodes"),
    DeclareLaunchArgument("params_file", default_value=PARAMS_FILE, description="YAML file of parameters"),
    DeclareLaunchArgument("model", default_value="", description="model to run; empty: as in params_file"),
    DeclareLaunchArgument("use_sim_time", default_value="false", description="take the time from /clock"),
    DeclareLaunchArgument("log_level", default_value="info", description="debug, info, warn, error"),
]


def server_node(context: LaunchContext) -> list[Node]:
    """The node; an argument that was left empty does not override the file."""

    def argument(name: str) -> str:
        return LaunchConfiguration(name).perform(context)

    overrides = {"model": argument("model")} if argument("model") else {}
    use_sim_time = argument("use_sim_time").lower() in ("true", "1", "yes", "on")
    return [
        Node(
            package="cacheinf_ros",
            executable="server",
            name="server",
            namespace=argument("namespace"),
            parameters=[argument("params_file"), {**overrides, "use_sim_time": use_sim_time}],
            arguments=["--ros-args", "--log-level", argument("log_level")],
            output="screen",
        )
    ]


def generate_launch_description() -> LaunchDescription:
    """What ``ros2 launch`` runs."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=server_node)])
