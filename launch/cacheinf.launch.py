"""Everything on one machine: matcher and inference, and the server where it is wanted."""

from __future__ import annotations

from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.conditions import IfCondition
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.substitutions import FindPackageShare

from launch import LaunchDescription

SHARE = FindPackageShare("cacheinf_ros")
PARAMS_FILE = PathJoinSubstitution([SHARE, "config", "cacheinf.yaml"])
ARGUMENTS = [
    DeclareLaunchArgument("namespace", default_value="", description="namespace of the nodes"),
    DeclareLaunchArgument("params_file", default_value=PARAMS_FILE, description="YAML file of parameters"),
    DeclareLaunchArgument("image_topic", default_value="", description="the camera's topic; empty: as in params_file"),
    DeclareLaunchArgument("model", default_value="", description="model to run; empty: as in params_file"),
    DeclareLaunchArgument("use_server", default_value="false", description="start a server, and send frames to it"),
    DeclareLaunchArgument(
        "offload_policy", default_value="", description="who computes what, with a server; empty: as in params_file"
    ),
    DeclareLaunchArgument("use_sim_time", default_value="false", description="take the time from /clock"),
    DeclareLaunchArgument("log_level", default_value="info", description="debug, info, warn, error"),
    DeclareLaunchArgument(
        "single_process", default_value="false", description="matcher and inference in one process: fewer copies"
    ),
]


def part(name: str, *arguments: str, condition: IfCondition | None = None) -> IncludeLaunchDescription:
    """Another launch file of this package, with the same arguments."""
    return IncludeLaunchDescription(
        PythonLaunchDescriptionSource(PathJoinSubstitution([SHARE, "launch", f"{name}.launch.py"])),
        launch_arguments=[(argument, LaunchConfiguration(argument)) for argument in arguments],
        condition=condition,
    )


def generate_launch_description() -> LaunchDescription:
    """What ``ros2 launch`` runs."""
    shared = ("namespace", "params_file", "model", "use_sim_time", "log_level")
    return LaunchDescription(
        [
            *ARGUMENTS,
            part("robot", *shared, "image_topic", "use_server", "offload_policy", "single_process"),
            part("server", *shared, condition=IfCondition(LaunchConfiguration("use_server"))),
        ]
    )
