# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A server that refuses a variant goes on to serve others, and what is said of sessions ends with them."""

# ruff: noqa: E402  the tests are skipped before the imports that need ROS

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")

from catalogs import made_catalog

from cacheinf_ros.catalog.catalog_folder import CatalogFolder
from cacheinf_ros.catalog.serving import CatalogBudgetConfig, CatalogConfig
from cacheinf_ros.catalog.serving.device_models import View
from cacheinf_ros.catalog.variant import Cost, Place
from cacheinf_ros.msg import InferenceResult
from cacheinf_ros.nodes import catalog_cloud
from cacheinf_ros.nodes.catalog_cloud import CatalogCloud
from cacheinf_ros.nodes.limited import Sender
from cacheinf_ros.nodes.server_connection import ServerConnection, ServerReport
from cacheinf_ros.nodes.whole_frames import WholeFrames, whole_frame_report
from cacheinf_ros.offload import NO_MEMORY, NO_PLACE, REFUSES, Identity, OffloadConfig
from cacheinf_ros.pipeline.health import Health, WorkState
from cacheinf_ros.pipeline.node_configs import LimitConfig, Outputs, ResultConfig, ServerTopicsConfig

VIEW = View(image=np.zeros((4, 4, 3), np.uint8), stamp_ns=1)
REFUSAL = f"{REFUSES}: it has no such variant"


class Server:
    """A server that answers some variants, and what it says of the others.

    Attributes:
        places: how many sessions it has room for; those that were begun first have them.
        broken: variants that it gives a place to, but cannot load then.
        slow: variants that it still loads.
        full: what it says where it has no room.
    """

    def __init__(self, *variants: str, complaint: str = REFUSAL, places: int = 10) -> None:
        self.variants, self.complaint, self.places = variants, complaint, places
        self.broken: tuple[str, ...] = ()
        self.slow: tuple[str, ...] = ()
        self.full = NO_PLACE
        self.sessions: list[Frames] = []

    def session(self, node: Any, connection: Any, config: Any, identity: Identity, health: Any, **_: Any) -> Frames:
        self.sessions.append(Frames(self, identity.model.partition("/")[2]))
        return self.sessions[-1]


class Frames:
    """The parts of a session that are used."""

    def __init__(self, server: Server, variant: str) -> None:
        self.server, self.variant = server, variant
        self.bytes_sent, self.is_closed, self.tells = 0, False, True

    @property
    def complaint(self) -> str:
        server = self.server
        if self.variant not in server.variants or self.variant in server.broken:
            return server.complaint
        if self not in [each for each in server.sessions if not each.is_closed][: server.places]:
            return f"{REFUSES}: {server.full}"
        return "no server has answered yet" if self.variant in server.slow else ""

    def change(self, identity: Identity) -> None:
        assert not self.is_closed
        self.variant = identity.model.partition("/")[2]

    def ask(self, stamp_ns: int, image: Any, *, more_ms: float = 0.0) -> InferenceResult | None:
        assert not self.is_closed
        answer = InferenceResult(stage_names=["link"], stage_ms=[1.0], class_ids=[4, 1], data=[1, 2, 3])
        return None if self.complaint else answer

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> CatalogFolder:
    return made_catalog(tmp_path_factory.mktemp("door"), "door", {Place.CLOUD: Cost(money=1.0)})


def cloud(
    server: Server, folder: CatalogFolder, monkeypatch: pytest.MonkeyPatch, results: ResultConfig | None = None
) -> CatalogCloud:
    monkeypatch.setattr(catalog_cloud, "WholeFrames", server.session)
    configs = {
        CatalogConfig: CatalogConfig(), CatalogBudgetConfig: CatalogBudgetConfig(),
        ResultConfig: results or ResultConfig(), OffloadConfig: OffloadConfig(probe_max_s=30.0),
    }  # fmt: skip
    node: Any = SimpleNamespace(
        parameters=SimpleNamespace(get=configs.__getitem__), health=Health(), get_logger=lambda: None
    )
    connection: Any = SimpleNamespace(has_server=True)
    return CatalogCloud(node, [folder], connection)


def test_what_serves_stays_until_another_variant_has_answered(
    folder: CatalogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server("8bit")
    ours = cloud(server, folder, monkeypatch)
    served = ours.ask("door", "8bit", VIEW, "", is_new=True)
    assert served.answer is not None and served.class_id == 4
    refused = ours.ask("door", "original", VIEW, "", is_new=True)
    assert (refused.answer, refused.class_id, refused.why, refused.pause_s) == (None, None, REFUSAL, 30.0)
    assert ours.is_up("door")
    assert ours.ask("door", "8bit", VIEW, "", is_new=False).answer is not None
    assert [(each.variant, each.is_closed, each.tells) for each in server.sessions] == [
        ("8bit", False, True), ("original", True, False),
    ]  # fmt: skip
    server.variants = ("8bit", "original")
    assert ours.ask("door", "original", VIEW, "", is_new=True).pause_s == 0.0
    assert [each.is_closed for each in server.sessions] == [True, True, False] and server.sessions[2].tells


def test_a_refusal_at_first_leaves_the_server_to_other_variants(
    folder: CatalogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server("8bit")
    ours = cloud(server, folder, monkeypatch)
    assert ours.ask("door", "original", VIEW, "", is_new=True).pause_s == 30.0
    assert ours.is_up("door") and not server.sessions[0].is_closed  # it goes on to greet, and the log tells of it
    assert ours.ask("door", "8bit", VIEW, "", is_new=True).answer is not None
    assert [each.is_closed for each in server.sessions] == [True, False]


def test_a_server_that_does_not_answer_is_lost_for_all_variants(
    folder: CatalogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(complaint="no server has answered yet")
    ours = cloud(server, folder, monkeypatch)
    found = ours.ask("door", "original", VIEW, "", is_new=True)
    assert found.answer is None and found.pause_s == 0.0
    assert not ours.is_up("door") and not server.sessions[0].is_closed
    server.variants = ("original",)
    assert ours.is_up("door")


def full(folder: CatalogFolder, monkeypatch: pytest.MonkeyPatch) -> tuple[Server, CatalogCloud]:
    """Return a server whose only place a model's first variant has."""
    server = Server("8bit", "original", places=1)
    ours = cloud(server, folder, monkeypatch)
    assert ours.ask("door", "8bit", VIEW, "", is_new=True).answer is not None
    return server, ours


def open_sessions(server: Server) -> list[str]:
    return [each.variant for each in server.sessions if not each.is_closed]


@pytest.mark.parametrize("said", [NO_PLACE, NO_MEMORY])
def test_on_a_full_server_a_model_changes_its_variant_in_its_own_place(
    said: str, folder: CatalogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asked for a second place, every half minute for ever."""
    server, ours = full(folder, monkeypatch)
    server.full = said
    found = ours.ask("door", "original", VIEW, "", is_new=True)
    assert found.answer is not None and found.answer.variant == "original"
    assert open_sessions(server) == ["original"] and not server.sessions[0].is_closed
    assert ours.ask("door", "original", VIEW, "", is_new=False).answer is not None


def test_a_variant_that_a_full_server_lacks_costs_the_model_nothing(
    folder: CatalogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, ours = full(folder, monkeypatch)
    server.variants = ("8bit",)
    found = ours.ask("door", "original", VIEW, "", is_new=True)
    assert (found.why, found.pause_s, found.is_full, found.replaces) == (REFUSAL, 30.0, False, False)
    assert ours.ask("door", "8bit", VIEW, "", is_new=False).answer is not None
    assert open_sessions(server) == ["8bit"]


def test_where_the_other_variant_cannot_be_loaded_the_place_goes_back(
    folder: CatalogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, ours = full(folder, monkeypatch)
    asked = ours._candidate("door", "original")  # it finds no place, and only then it turns out to be broken
    monkeypatch.setattr(asked.frames, "server", Server("original", places=0))
    server.broken = ("original",)
    found = ours.ask("door", "original", VIEW, "", is_new=True)
    assert (found.answer, found.pause_s, found.replaces) == (None, 30.0, True)
    assert open_sessions(server) == ["8bit"] and ours.is_up("door")
    assert ours.ask("door", "8bit", VIEW, "", is_new=False).answer is not None


def test_a_variant_that_a_full_server_still_loads_keeps_the_place(
    folder: CatalogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, ours = full(folder, monkeypatch)
    server.slow = ("original",)
    found = ours.ask("door", "original", VIEW, "", is_new=True)
    assert (found.answer, found.pause_s, found.replaces) == (None, 0.0, True)
    assert not ours.is_up("door"), "the device serves meanwhile"
    server.slow = ()
    assert ours.is_up("door") and open_sessions(server) == ["original"]
    assert ours.ask("door", "original", VIEW, "", is_new=False).answer is not None


def test_a_variant_that_is_refused_after_its_deadline_gives_the_place_back(
    folder: CatalogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session went on to ask for it, and the variant that had served lost the model's place to the next robot."""
    server, ours = full(folder, monkeypatch)
    server.slow = ("original",)
    assert ours.ask("door", "original", VIEW, "", is_new=True).pause_s == 0.0
    ours.settle("door")
    assert open_sessions(server) == ["original"], "it is still being loaded"
    server.broken = ("original",)
    ours.settle("door")
    assert open_sessions(server) == ["8bit"] and not server.sessions[0].is_closed
    told = ours.ask("door", "original", VIEW, "", is_new=True)
    assert (told.answer, told.why, told.pause_s, told.replaces) == (None, REFUSAL, 30.0, False)
    assert open_sessions(server) == ["8bit"], "what is left out is not tried in vain once more"
    assert ours.is_up("door") and ours.ask("door", "8bit", VIEW, "", is_new=True).answer is not None
    server.broken = server.slow = ()
    assert ours.ask("door", "original", VIEW, "", is_new=True).answer is not None
    server.broken = ("original",)  # from now on: it has served, so nothing else is due
    ours.settle("door")
    assert open_sessions(server) == ["original"]


def test_a_refusal_that_a_request_meets_is_told_once(folder: CatalogFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    server, ours = full(folder, monkeypatch)
    server.slow = ("original",)
    ours.ask("door", "original", VIEW, "", is_new=True)
    server.broken = ("original",)
    assert ours.ask("door", "original", VIEW, "", is_new=True).pause_s == 30.0
    ours.settle("door")
    assert open_sessions(server) == ["8bit"]
    server.broken = server.slow = ()
    assert ours.ask("door", "original", VIEW, "", is_new=True).answer is not None


@pytest.mark.parametrize("said", [NO_PLACE, NO_MEMORY])
def test_a_robot_that_waits_for_its_first_place_asks_as_often_as_ever(
    said: str, folder: CatalogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server("8bit", places=0)
    server.full = said
    ours = cloud(server, folder, monkeypatch)
    found = ours.ask("door", "8bit", VIEW, "", is_new=True)
    assert (found.pause_s, found.is_full, found.replaces) == (30.0, True, False)
    server.places = 1
    assert ours.ask("door", "8bit", VIEW, "", is_new=True).answer is not None


def test_a_model_that_is_split_now_holds_no_place_for_whole_frames(
    folder: CatalogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, ours = full(folder, monkeypatch)
    ours.release("door")
    assert not open_sessions(server)
    ours.release("door")
    assert ours.is_up("door"), "as before the first request"
    assert ours.ask("door", "8bit", VIEW, "", is_new=True).answer is not None


def test_nothing_is_said_of_a_session_after_its_end(context: Any) -> None:
    """Its model may have been withdrawn by then, and with it all that was said of it."""
    node, health = rclpy.create_node("robot", context=context), Health()

    def said() -> set[str]:
        values = health.status(WorkState(), latency_budget_ms=1.0, stuck_after_s=1.0, now_s=0.0).values
        return {f"{name}={text}" for name, text in values.items() if name.startswith("door")}

    connection = ServerConnection(node, ServerTopicsConfig(), Sender(node, LimitConfig()))
    frames = WholeFrames(
        node, connection, OffloadConfig(), Identity(model="door", network="0" * 32), health, most_output_bytes=1,
        report=whole_frame_report(node, health, "door: "),
    )  # fmt: skip
    frames._tick()
    assert said() == {"door: server=no server has answered yet"}
    frames.close()
    assert said() == {"door: server=not used"}
    health.erase("door: ")
    frames._tick()
    assert said() == set()
    connection.close()
    node.destroy_node()


def test_what_is_wrong_is_logged_once_until_all_is_well() -> None:
    lines: list[str] = []
    logger = SimpleNamespace(warning=lines.append, info=lines.append)
    node: Any = SimpleNamespace(get_logger=lambda: logger)
    report = ServerReport(node, Health(), started="answers", until="it answers", prefix="")
    for complaint in ("", "lost", "refused", "lost", "refused", "", "", "lost"):
        report.say(complaint)
    assert [line.split()[1].strip(";") for line in lines] == ["lost", "refused", "answers", "lost"]


@pytest.mark.parametrize(
    ("reference", "outputs", "is_left_out"),
    [
        ("colours.yaml", Outputs.DECODED, True),
        ("colours.yaml", Outputs.ALL, False),
        ("tiny.py:tiny", Outputs.DECODED, False),
    ],
)
def test_results_of_the_server_carry_what_the_user_wants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: str, outputs: Outputs, is_left_out: bool
) -> None:
    """Raw tensors came with the server's results, which those that were computed here did not have."""
    networks = Path(__file__).parents[1] / "networks"
    folder = made_catalog(tmp_path, "door", {Place.CLOUD: Cost(money=1.0)}, str(networks / reference))
    ours = cloud(Server("8bit"), folder, monkeypatch, ResultConfig(outputs=outputs))
    answer = ours.ask("door", "8bit", VIEW, "", is_new=True).answer
    assert answer is not None and (len(answer.data) == 0) == is_left_out
