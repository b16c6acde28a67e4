"""What a frame costs the robot's battery: by a power model, where no meter says it.

The model is that of the papers: power while idle, and what computing, sending and receiving add to it.
"""

from __future__ import annotations

from cacheinf_ros.config import Config, parameter


class PowerModel(Config):
    """Watts; the defaults are about those of a Jetson Xavier NX with a wireless card."""

    idle_w: float = parameter(5.0, "power model: the robot's computer at rest, W", low=0.0, high=10_000.0)
    compute_w: float = parameter(10.0, "power model: what computing adds, W", low=0.0, high=10_000.0)
    transmit_w: float = parameter(1.5, "power model: what sending adds, W", low=0.0, high=10_000.0)
    receive_w: float = parameter(1.0, "power model: what receiving adds, W", low=0.0, high=10_000.0)

    def joules(self, frame_ms: float, compute_ms: float, transmit_ms: float, receive_ms: float) -> float:
        """Of a frame: idle for all of it, and what is added for as long as it lasts."""
        added = self.compute_w * compute_ms + self.transmit_w * transmit_ms + self.receive_w * receive_ms
        return (self.idle_w * frame_ms + added) / 1e3
