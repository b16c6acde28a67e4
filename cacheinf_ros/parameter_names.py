# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The names of all parameters, and what became of former ones, for nodes and launch files.

No configuration is imported here: that takes seconds, and launch files need the names. A test compares them with the
configurations, and the table in CHANGELOG.rst with :data:`RENAMED` and :data:`GONE`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

RENAMED = {
    "audit_every": "cache.audit_every",
    "cache": "cache.keep",
    "cache_budget_mb": "cache.budget_mb",
    "catalog_memory_mb": "server.catalog_memory_mb",
    "compute_w": "energy.compute_w",
    "forget_after_s": "server.forget_after_s",
    "idle_w": "energy.idle_w",
    "jpeg_quality": "server.jpeg_quality",
    "latency_budget_ms": "diagnostics.latency_budget_ms",
    "limit_link": "server.limit_link",
    "load_deadline_ms": "server.load_deadline_ms",
    "max_robots": "server.max_robots",
    "offload_policy": "server.policy",
    "price_mb": "server.price_mb",
    "price_server_s": "server.price_s",
    "probe_max_s": "server.probe_max_s",
    "probe_s": "server.probe_s",
    "receive_w": "energy.receive_w",
    "schedule_s": "server.schedule_s",
    "server_deadline_ms": "server.deadline_ms",
    "share_topic": "server.share_topic",
    "shared_topic": "server.shared_topic",
    "stuck_after_s": "diagnostics.stuck_after_s",
    "transmit_w": "energy.transmit_w",
    "use_server": "server.use",
    "wire_compress": "server.wire_compress",
    "wire_dtype": "server.wire_dtype",
    "wire_image": "server.wire_image",
}
"""Former name -> present name; nodes still accept values under the former one."""

GONE = {
    "adapt_to_noise": "always on, unless threshold is 100",
    "cache_map_topic": "remap the topic: -r cache_map:=NAME, or remappings in a launch file",
    "debug_memory": "only tests and experiments need it: EngineConfig(debug_memory=True)",
    "dense_fallback": "always on; with mode dense everything is computed",
    "dense_ms": "always as measured: the matcher hears it from the inference node",
    "k_skip": "always 2, as in the paper",
    "max_motion_error": "always 0.8; max_error and max_missed are the bounds to choose",
    "request_topic": "whole frames go the same way as all others: server.share_topic",
    "response_topic": "whole frames go the same way as all others: server.shared_topic",
    "share_operators": "always on",
    "specialise_audit_every": "always every 15th answer",
    "specialise_most_contradicted": "always 0.1 beyond what was expected",
    "specialise_pause_s": "always 30 s",
    "specialise_results": "always 50",
    "specialise_slack": "always 0.1",
    "specialise_watch_results": "always 10",
    "specialise_watch_s": "always 10 s",
    "specialise_window_s": "always 30 s",
    "warp_threshold": "always 3 grey levels; the matchers that look at single blocks go by threshold",
}
"""Former name -> what to do instead."""

_NAMES = """
autostart block_size budget_horizon_s cache.audit_every cache.budget_mb cache.keep catalogs classes cloud_budget
dense_precision device device_memory_mb diagnostics.latency_budget_ms diagnostics.stuck_after_s energy.compute_w
energy.idle_w energy.receive_w energy.transmit_w energy_budget_j every expiry fleet frame_id frames gpu.cameras
image_reliability image_topic image_transport image_values input_size linger_s loop map_timeout_ms matcher max_error
max_loss max_missed max_output_bytes mode model most_ahead most_apart_ms outputs policy precision publish_clock
queue_size rate rates region result_topic right.image_topic right.image_transport right.image_values same_bits
score_threshold search_range server.catalog_memory_mb server.deadline_ms server.forget_after_s server.jpeg_quality
server.limit_link server.load_deadline_ms server.max_robots server.policy server.price_mb server.price_most
server.price_s server.priority server.probe_max_s server.probe_s server.schedule_s server.search_s server.share_topic
server.shared_topic server.slower_for_energy server.use server.wire_compress server.wire_dtype server.wire_image
settle_s source specialise specialise_together stamp threads threshold tracks voxels wait_for_node
wait_for_subscribers wait_timeout_s weights
"""
KNOWN = frozenset(_NAMES.split())
"""The names of all parameters of all nodes."""


_LONGEST_NAME = 64  # characters; a longer name is not compared beyond them, as it resembles no parameter


def what_became_of(name: str) -> str:
    """Say what became of a former name, as "'use_server' is now 'server.use'"; empty: it is no former name."""
    if name in RENAMED:
        return f"{name!r} is now {RENAMED[name]!r}"
    return f"{name!r} is gone: {GONE[name]}" if name in GONE else ""


def meant_by(name: str, known: Iterable[str]) -> str:
    """Return a question that suggests the known name most like an unknown one; empty: none is similar."""
    similar = difflib.get_close_matches(name[:_LONGEST_NAME], list(known), n=1)
    return f" (did you mean {similar[0]!r}?)" if similar else ""
