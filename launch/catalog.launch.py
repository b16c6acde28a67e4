"""Many models under a budget: the robot's node, and on this machine the server too where ``server:=true``."""

from __future__ import annotations

from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare

from launch import LaunchContext, LaunchDescription

PARAMS_FILE = PathJoinSubstitution([FindPackageShare("cacheinf_ros"), "config", "cacheinf.yaml"])
NUMBERS = ("energy_budget_j", "cloud_budget", "budget_horizon_s", "device_memory_mb")
ARGUMENTS = [
    DeclareLaunchArgument("namespace", default_value="", description="namespace of the nodes"),
    DeclareLaunchArgument("params_file", default_value=PARAMS_FILE, description="YAML file of parameters"),
    DeclareLaunchArgument("image_topic", default_value="", description="the camera's topic; empty: as in params_file"),
    DeclareLaunchArgument(
        "catalogs", default_value="", description="folders, separated by commas; empty: as in params_file"
    ),
    DeclareLaunchArgument(
        "rates", default_value="", description="Hz, separated by commas: one per catalog, or one for all"
    ),
    *(
        DeclareLaunchArgument(name, default_value="", description="see docs/nodes.md; empty: as in params_file")
        for name in NUMBERS
    ),
    DeclareLaunchArgument("policy", default_value="", description="who serves; empty: as in params_file"),
    DeclareLaunchArgument("use_server", default_value="false", description="also send frames to a server"),
    DeclareLaunchArgument("server", default_value="false", description="start the server on this machine too"),
    DeclareLaunchArgument("use_sim_time", default_value="false", description="take the time from /clock"),
    DeclareLaunchArgument("log_level", default_value="info", description="debug, info, warn, error"),
]


def catalog_nodes(context: LaunchContext) -> list[Node]:
    """The nodes; an argument that was left empty does not override the file."""

    def argument(name: str) -> str:
        return LaunchConfiguration(name).perform(context)

    def is_true(name: str) -> bool:
        return argument(name).lower() in ("true", "1", "yes", "on")

    def words(name: str) -> list[str]:
        return [word.strip() for word in argument(name).split(",") if word.strip()]

    catalogs = {"catalogs": words("catalogs")} if words("catalogs") else {}
    robot = {
        **{name: argument(name) for name in ("image_topic", "policy") if argument(name)},
        **{name: float(argument(name)) for name in NUMBERS if argument(name)},
        **({"rates": [float(word) for word in words("rates")]} if words("rates") else {}),
        "use_server": is_true("use_server") or is_true("server"),
    }
    parameters = {"catalog_inference": robot, **({"server": {}} if is_true("server") else {})}
    return [
        Node(
            package="cacheinf_ros",
            executable=executable,
            name=executable,
            namespace=argument("namespace"),
            parameters=[argument("params_file"), {**catalogs, **own, "use_sim_time": is_true("use_sim_time")}],
            arguments=["--ros-args", "--log-level", argument("log_level")],
            output="screen",
        )
        for executable, own in parameters.items()
    ]


def generate_launch_description() -> LaunchDescription:
    """What ``ros2 launch`` runs."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=catalog_nodes)])
