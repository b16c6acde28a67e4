# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A process that frees what messages took, as the server does, keeps less than a tenth of what came at once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cacheinf_ros.fast_dds import PROFILES_VARIABLE, QOS_FROM_PROFILES_VARIABLE, free_message_buffers
from cacheinf_ros.nodes import server

DEADLINE_S = 60
MESSAGES, BYTES = 100, 300_000
OURS = (PROFILES_VARIABLE, QOS_FROM_PROFILES_VARIABLE)

_COMMON = """
import sys
import rclpy
from rclpy.duration import Duration
from std_msgs.msg import UInt8MultiArray
from cacheinf_ros.fast_dds import free_message_buffers, set_up_middleware
from cacheinf_ros.heap import give_memory_back
from cacheinf_ros.nodes.topics import profile

messages, size = int(sys.argv[1]), int(sys.argv[2])

def own_mb():
    give_memory_back()
    # without what others share: where messages come by shared memory, their sender's segment is mapped here
    (line,) = (line for line in open("/proc/self/status") if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024 / 1e6
"""
RECEIVER = (
    _COMMON
    + """
free_message_buffers() if sys.argv[3] == "free" else set_up_middleware()
rclpy.init()
node, received = rclpy.create_node("receiver"), []
node.create_subscription(UInt8MultiArray, "packets", lambda message: received.append(len(message.data)), profile(200))
before = own_mb()
print("waiting", flush=True)
sys.stdin.readline()  # until all have come
while len(received) < messages:
    rclpy.spin_once(node)
print(own_mb() - before, flush=True)
"""
)
SENDER = (
    _COMMON
    + """
set_up_middleware()
rclpy.init()
node = rclpy.create_node("sender")
publisher = node.create_publisher(UInt8MultiArray, "packets", profile(200))
while not publisher.get_subscription_count():
    rclpy.spin_once(node, timeout_sec=0.1)
for _ in range(messages):
    publisher.publish(UInt8MultiArray(data=bytes(size)))
sys.exit(not publisher.wait_for_all_acked(Duration(seconds=float(sys.argv[3]))))
"""
)


def growth_mb(how: str, domain: int) -> float:
    """Return by how much a process grows that receives all messages before it takes the first."""
    inherited = {name: value for name, value in os.environ.items() if name not in OURS}
    environment = {**inherited, "ROS_DOMAIN_ID": str(domain)}
    arguments = [str(MESSAGES), str(BYTES)]
    with subprocess.Popen(
        [sys.executable, "-c", RECEIVER, *arguments, how],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as receiver:
        try:
            assert receiver.stdout is not None and receiver.stdout.readline() == "waiting\n"
            sender = [sys.executable, "-c", SENDER, *arguments, str(DEADLINE_S)]
            subprocess.run(sender, env=environment, check=True, timeout=DEADLINE_S)
            return float(receiver.communicate("\n", timeout=DEADLINE_S)[0])
        finally:
            receiver.kill()


def test_buffers_are_freed_with_their_messages(domain: int) -> None:
    kept, freed = growth_mb("keep", domain), growth_mb("free", domain)
    assert kept > MESSAGES * BYTES / 2e6  # otherwise this would test nothing
    assert freed < MESSAGES * BYTES / 10e6


def test_the_server_frees_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {}
    monkeypatch.setattr(server, "share_pools", lambda most: None)
    monkeypatch.setattr(server, "run_node", lambda *_, **options: given.update(options))
    server.main()
    assert given == {"set_up": free_message_buffers}
