# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The server as a place where variants run: requests, loading ahead, retries after it was lost, and what it costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cacheinf_ros.catalog import CatalogFolder
from cacheinf_ros.catalog.serving import CatalogBudgetConfig, CatalogConfig, identity_of_variant, whole_frames_prefix
from cacheinf_ros.catalog.serving.device_models import View
from cacheinf_ros.catalog.serving.serving_places import CloudAnswer
from cacheinf_ros.engine.decoders import are_told_by_classes_and_boxes
from cacheinf_ros.msg import InferenceResult
from cacheinf_ros.nodes.frame_node import FrameNode
from cacheinf_ros.nodes.results import with_wanted_outputs
from cacheinf_ros.nodes.server_connection import ServerConnection
from cacheinf_ros.nodes.whole_frame_models import LOAD
from cacheinf_ros.nodes.whole_frames import WholeFrames, whole_frame_report
from cacheinf_ros.offload import NO_MEMORY, NO_PLACE, REFUSES, OffloadConfig
from cacheinf_ros.pipeline.node_configs import ResultConfig

_LINK = "link"  # the stage that is spent on the link, not on the server


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Session:
    """The session in which a variant of a model is asked.

    Attributes:
        before: the variant that served in its place, until this one has answered; empty: none.
    """

    variant: str
    frames: WholeFrames
    before: str = ""

    @property
    def is_refused(self) -> bool:
        """Whether the server refuses the variant; it may have others."""
        return _is_refusal(self.frames.complaint)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Tried:
    """What became of a frame that was sent.

    Attributes:
        message: the result; None: none came in time.
        sent_bytes: what was sent.
        complaint: why there is no result; empty: there is one.
    """

    message: InferenceResult | None
    sent_bytes: int
    complaint: str

    @property
    def is_refused(self) -> bool:
        """Whether the server refuses the variant; it may have others."""
        return _is_refusal(self.complaint)

    @property
    def finds_no_place(self) -> bool:
        """Whether the server would serve the variant, but has no place, or no memory, for one more session."""
        return self.complaint in (f"{REFUSES}: {NO_PLACE}", f"{REFUSES}: {NO_MEMORY}")


class CatalogCloud:
    """Has frames computed by variants on the server, with one session per model.

    A session for another variant replaces it only once that variant has answered; until then it goes on beside it, as
    the server may take long to load that variant. Where the server has no room for both, the session that serves is
    changed to that variant instead: the server gives up one before it loads the other, and no other robot gets the
    place, even if the server refuses the other one and the session is changed back.
    """

    def __init__(self, node: FrameNode, folders: Iterable[CatalogFolder], connection: ServerConnection) -> None:
        """Prepare.

        Args:
            folders: the catalogs of the models.

        Raises:
            ModelError: the card of a catalog's original cannot be read.
        """
        get = node.parameters.get
        self._node = node
        self._connection = connection
        self._load_deadline_ms = get(CatalogConfig).load_deadline_ms
        self._prices = get(CatalogBudgetConfig).prices
        self._pause_s = get(OffloadConfig).probe_max_s
        self._folders = {folder.file.name: folder for folder in folders}
        # of the original's card: which known detector a variant is, only its network tells, which is not loaded
        self._are_told = {name: are_told_by_classes_and_boxes(each.cards[0]) for name, each in self._folders.items()}
        self._reports = {
            name: whole_frame_report(node, node.health, whole_frames_prefix(name)) for name in self._folders
        }
        self._sessions: dict[str, _Session] = {}  # by model
        self._candidates: dict[str, _Session] = {}  # likewise: of variants that have not answered yet
        self._refusals: dict[tuple[str, str], str] = {}  # by model and variant: why, until a request has been told

    def is_up(self, model: str) -> bool:
        """Tell whether requests for a model are worth sending."""
        session = self._sessions.get(model)
        return self._connection.has_server and (session is None or session.is_refused or not session.frames.complaint)

    def settle(self, model: str) -> None:
        """Change a model's session back where the server has refused the other variant after it had been waited for."""
        session = self._sessions.get(model)
        if session is not None and session.before and session.is_refused:
            self._refusals[model, session.variant] = session.frames.complaint
            self._change_back(model, session.variant)

    def ask(self, model: str, variant: str, view: View, why: str, *, is_new: bool) -> CloudAnswer[InferenceResult]:
        """Send a frame to a variant on the server, and wait for its result.

        Args:
            view: the frame.
            why: the reason for choosing the server, for the result.
            is_new: whether the server has to load the variant first; if so, it gets extra time.
        """
        refusal = self._refusals.pop((model, variant), "")
        if refusal:
            return self._no_answer(_Tried(message=None, sent_bytes=0, complaint=refusal), is_kept=True)
        session = self._sessions.get(model)
        if session is None or session.variant != variant:
            session, is_new = self._candidate(model, variant), True
        tried = self._send(session, view, is_new=is_new)
        is_kept = self._keep(model, session, has_answered=tried.message is not None)
        replaces = tried.finds_no_place and not is_kept
        if replaces:
            again = self._send_in_place(model, variant, view)
            tried = replace(again, sent_bytes=tried.sent_bytes + again.sent_bytes)
        if tried.is_refused:
            self._change_back(model, variant)
        if tried.message is None:
            return self._no_answer(tried, is_kept=is_kept or replaces, replaces=replaces)
        self._sessions[model] = replace(self._sessions[model], before="")
        message = tried.message
        stages = dict(zip(message.stage_names, message.stage_ms, strict=True))
        link_ms = stages.pop(_LINK)
        money = self._prices.dollars(sum(stages.values()), tried.sent_bytes + len(message.data))
        load_money = self._prices.dollars(stages.get(LOAD, 0.0), 0)
        config = self._node.parameters.get(ResultConfig)
        message = with_wanted_outputs(message, config, are_told=self._are_told[model])
        message.header, message.model, message.variant, message.why = view.header, model, variant, why
        class_id = message.class_ids[0] if message.class_ids else None  # the likeliest comes first
        return CloudAnswer(answer=message, money=money, load_money=load_money, link_ms=link_ms, class_id=class_id)

    def close(self) -> None:
        """End all sessions: nothing more is asked of the server."""
        for session in (*self._sessions.values(), *self._candidates.values()):
            session.frames.close()
        self._sessions.clear()
        self._candidates.clear()
        self._refusals.clear()

    def release(self, model: str) -> None:
        """End the sessions of a model: no place of the server is held for nothing."""
        for sessions in (self._sessions, self._candidates):
            session = sessions.pop(model, None)
            if session is not None:
                session.frames.close()
        self._refusals = {key: why for key, why in self._refusals.items() if key[0] != model}

    def probe(self, model: str, view: View) -> float:
        """Send a frame, without waiting, to a server that was late, if it is time to try it again.

        What the server does with the frame is not known, and not paid for.

        Returns:
            what the bytes that were sent cost, in dollars.
        """
        if model not in self._sessions or not self._sessions[model].frames.complaint:
            return 0.0
        frames = self._sessions[model].frames
        before = frames.bytes_sent
        frames.ask(view.stamp_ns, view.image)
        return self._prices.dollars(0.0, frames.bytes_sent - before)

    def _send(self, session: _Session, view: View, *, is_new: bool) -> _Tried:
        """Send a frame in a session, and wait for the result."""
        frames = session.frames
        before = frames.bytes_sent
        message = frames.ask(view.stamp_ns, view.image, more_ms=self._load_deadline_ms if is_new else 0.0)
        complaint = "" if message is not None else frames.complaint or "it did not answer in time"
        return _Tried(message=message, sent_bytes=frames.bytes_sent - before, complaint=complaint)

    def _no_answer(self, tried: _Tried, *, is_kept: bool, replaces: bool = False) -> CloudAnswer[InferenceResult]:
        """Say that there is no answer; ``is_kept``: the session is kept, for which the server may be lost meanwhile."""
        pause_s = self._pause_s if tried.is_refused or not is_kept else 0.0
        return CloudAnswer(
            answer=None, money=self._prices.dollars(0.0, tried.sent_bytes), why=tried.complaint, pause_s=pause_s,
            is_full=tried.finds_no_place, replaces=replaces,
        )  # fmt: skip

    def _send_in_place(self, model: str, variant: str, view: View) -> _Tried:
        """Change the model's session to another variant, and send a frame.

        Where there is no answer in time, the server goes on to load the variant, as it has given up the one before;
        where it refuses it then, :meth:`settle` changes the session back.
        """
        self._change(model, variant, before=self._sessions[model].variant)
        return self._send(self._sessions[model], view, is_new=True)

    def _change_back(self, model: str, refused: str) -> None:
        """Change the model's session back where it was changed to a variant that the server has refused."""
        session = self._sessions.get(model)
        if session is not None and session.variant == refused and session.before:
            self._change(model, session.before, before="")

    def _change(self, model: str, variant: str, *, before: str) -> None:
        frames = self._sessions[model].frames
        frames.change(identity_of_variant(self._folders[model], variant))
        self._sessions[model] = _Session(variant=variant, frames=frames, before=before)

    def _candidate(self, model: str, variant: str) -> _Session:
        """Return the session for a variant that has not answered yet; one for yet another variant ends."""
        found = self._candidates.get(model)
        if found is not None and found.variant == variant:
            return found
        if found is not None:
            found.frames.close()
        self._candidates[model] = self._begun(model, variant)
        return self._candidates[model]

    def _begun(self, model: str, variant: str) -> _Session:
        """Begin a session for another variant, of which nothing is told until it is kept."""
        node, identity = self._node, identity_of_variant(self._folders[model], variant)
        frames = WholeFrames(
            node, self._connection, node.parameters.get(OffloadConfig), identity, node.health,
            most_output_bytes=node.parameters.get(ResultConfig).max_output_bytes, report=self._reports[model],
        )  # fmt: skip
        frames.tells = False
        return _Session(variant=variant, frames=frames)

    def _keep(self, model: str, asked: _Session, *, has_answered: bool) -> bool:
        """Keep one of the sessions of a model: the one just asked, or the one before it where only that one works."""
        before = self._sessions.get(model)
        if before is asked:
            return True
        if before is not None and not has_answered and not before.frames.complaint:
            if asked.is_refused:
                self._candidates.pop(model).frames.close()
            return False
        del self._candidates[model]
        if before is not None:
            before.frames.tells = False  # the other one is told of from now on, by the same report
            before.frames.close()
        asked.frames.tells = True
        self._sessions[model] = asked
        return True


def _is_refusal(complaint: str) -> bool:
    return complaint.startswith(REFUSES)
