# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A node that ``ros2 lifecycle`` and the service ``~/enable`` can deactivate and activate."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

from lifecycle_msgs.msg import State
from rclpy.exceptions import InvalidNamespaceException, NameValidationException, ParameterException
from rclpy.lifecycle import LifecycleNodeMixin, LifecycleState, TransitionCallbackReturn
from rclpy.node import Node
from rosgraph_msgs.msg import Clock
from std_srvs.srv import SetBool

from cacheinf_ros.config import Config
from cacheinf_ros.errors import CacheinfError
from cacheinf_ros.nodes.configured_node import ConfiguredNode
from cacheinf_ros.pipeline.node_configs import LifecycleConfig

START_ERRORS = (CacheinfError, ParameterException, NameValidationException, InvalidNamespaceException)
"""Errors that the user can do something about; all others are bugs and keep their traceback."""


class Standing(Enum):
    """The lifecycle state of a node; the values are what diagnostics say."""

    UNCONFIGURED = "unconfigured: no model is loaded"
    INACTIVE = "inactive: frames are ignored until it is activated or enabled"
    ACTIVE = ""
    FINALIZED = "finalized: it was shut down, and can only be started anew"


class ManagedNode(LifecycleNodeMixin, ConfiguredNode):
    """Loads what takes time when it is configured, and works while it is active.

    A subclass overrides four methods, which are called by the executor's thread: :meth:`configure`, :meth:`activate`
    and their counterparts, :meth:`clean_up` and :meth:`deactivate`. Publishers, timers and the like that
    :meth:`activate` makes are destroyed after :meth:`deactivate`, and all that the node has made since
    :meth:`configure` after :meth:`clean_up`. Where :meth:`configure` or :meth:`activate` raises, its counterpart is
    not called.

    Attributes:
        standing: the lifecycle state of the node.
    """

    def __init__(self, name: str, *configs: type[Config], **options: Any) -> None:
        """Declare the parameters and the services; ``options`` are passed to rclpy's Node."""
        ConfiguredNode.__init__(self, name, *configs, LifecycleConfig, **options)
        LifecycleNodeMixin.__init__(self)
        self._callbacks |= {
            State.TRANSITION_STATE_CONFIGURING: self._on_configure,
            State.TRANSITION_STATE_ACTIVATING: self._on_activate,
            State.TRANSITION_STATE_DEACTIVATING: self._on_deactivate,
            State.TRANSITION_STATE_CLEANINGUP: self._on_cleanup,
            State.TRANSITION_STATE_SHUTTINGDOWN: self._on_shutdown,
            State.TRANSITION_STATE_ERRORPROCESSING: self._on_error,
        }
        self.standing = Standing.UNCONFIGURED
        self._failure: Exception | None = None
        self._is_starting = False
        self._before_configure = _Entities(self)
        self._made_by_activate: list[Callable[[], object]] = []
        self._enable = self.create_service(SetBool, "~/enable", self._set_enabled)

    def configure(self) -> None:
        """Load what the node works with; may raise any of :data:`START_ERRORS`."""

    def activate(self) -> None:
        """Begin to work."""

    def deactivate(self) -> None:
        """Finish what is being worked on, and do nothing more."""

    def clean_up(self) -> None:
        """Free what :meth:`configure` has loaded."""

    def start(self) -> None:
        """Configure and activate the node, unless ``autostart`` is false; raises what prevents it."""
        if not self.parameters.get(LifecycleConfig).autostart:
            self.get_logger().info("unconfigured: waits for `ros2 lifecycle set` or ~/enable, as autostart is false")
            return
        self._is_starting = True
        try:
            if not self._enabled() and self._failure is not None:
                raise self._failure
        finally:
            self._is_starting = False

    def close(self) -> None:
        """Finish what is being worked on, and free what is loaded."""
        if self.standing is Standing.ACTIVE:
            self.deactivate()
        if self.standing in (Standing.ACTIVE, Standing.INACTIVE):
            self.clean_up()
        self.standing = Standing.FINALIZED

    def _on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Handle the transition "configure"."""
        self._before_configure = _Entities(self)
        return self._attempt(self.configure, Standing.INACTIVE, self._before_configure)

    def _on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Handle the transition "activate"."""
        before = _Entities(self)
        result = self._attempt(self.activate, Standing.ACTIVE, before)
        self._made_by_activate = before.destroyers_of_newer()
        return result

    def _on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Handle the transition "deactivate"."""
        return self._attempt(self._deactivate, Standing.INACTIVE)

    def _on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Handle the transition "cleanup"."""
        return self._attempt(self._clean_up, Standing.UNCONFIGURED)

    def _on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Handle the transition "shutdown"."""
        return self._attempt(self._free_all, Standing.FINALIZED)

    def _on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Clean up after a bug in another transition; where even that fails, the node is finalized."""
        cause = self._failure
        result = self._attempt(self._free_all, Standing.UNCONFIGURED)
        self._failure = cause or self._failure  # the user wants to know the cause, not that all was freed well
        if result is not TransitionCallbackReturn.SUCCESS:
            self.standing = Standing.FINALIZED
        return result

    def _free_all(self) -> None:
        if self.standing is Standing.ACTIVE:
            self._deactivate()
        if self.standing in (Standing.ACTIVE, Standing.INACTIVE):
            self._clean_up()

    def _deactivate(self) -> None:
        self.deactivate()
        for destroy in self._made_by_activate:
            destroy()

    def _clean_up(self) -> None:
        self.clean_up()
        self._before_configure.destroy_newer()
        gc.collect()  # models take memory that Python does not count

    def _attempt(
        self, step: Callable[[], None], then: Standing, before: _Entities | None = None
    ) -> TransitionCallbackReturn:
        """Take a step of the lifecycle, and return whether it succeeded.

        Args:
            step: configures, activates, deactivates or cleans up.
            then: the standing after the step.
            before: what the node had before; where the step fails, all that is newer is destroyed.
        """
        try:
            step()
        except Exception as error:
            is_expected = isinstance(error, START_ERRORS)
            self._failure = _without_frames(error) if is_expected else error
            if before is not None:
                before.destroy_newer()
            if not self._is_starting:  # otherwise the caller of start reports it
                self.get_logger().error(self._failure_told if is_expected else traceback.format_exc())
            result = TransitionCallbackReturn.FAILURE if is_expected else TransitionCallbackReturn.ERROR
        else:
            self.standing = then
            self._failure = None
            return TransitionCallbackReturn.SUCCESS
        gc.collect()  # what the step had loaded before it failed
        return result

    @property
    def _failure_told(self) -> str:
        """Why the last transition failed, which left the node inactive against the user's wish; empty: it did not."""
        error = self._failure
        if error is None:
            return ""
        told = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, START_ERRORS):
            return told
        return f"internal error, see the node's log: {type(error).__name__}: {told}"

    def _set_enabled(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        """Answer the service: activate the node, after configuring it where necessary, or deactivate it."""
        response.success = self._enabled() if request.data else self._disabled()
        response.message = self._failure_told or self.standing.value or "active"
        return response

    def _enabled(self) -> bool:
        self._failure = None
        if self.standing is Standing.UNCONFIGURED:
            self.trigger_configure()
        if self.standing is Standing.INACTIVE:
            self.trigger_activate()
        return self.standing is Standing.ACTIVE

    def _disabled(self) -> bool:
        self._failure = None
        if self.standing is Standing.ACTIVE:
            self.trigger_deactivate()
        return self.standing is not Standing.ACTIVE


class _Entities:
    """The publishers, subscriptions, timers and the like that a node had at a certain time.

    The subscription to ``/clock``, which rclpy makes when ``use_sim_time`` is set, is not among them: without it the
    node's clock would stand still from then on.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._kinds: tuple[tuple[Callable[[], Any], Callable[[Any], object]], ...] = (
            (lambda: (each for each in node.subscriptions if each.msg_type is not Clock), node.destroy_subscription),
            (lambda: node.publishers, node.destroy_publisher),
            (lambda: node.clients, node.destroy_client),
            (lambda: node.timers, node.destroy_timer),
            (lambda: node.guards, node.destroy_guard_condition),
        )
        self._known = [set(present()) for present, _ in self._kinds]

    def destroyers_of_newer(self) -> list[Callable[[], object]]:
        """Return, for each entity that the node has gained since, what destroys it if it is still there."""
        return [
            partial(destroy, each)
            for (present, destroy), known in zip(self._kinds, self._known, strict=True)
            for each in set(present()) - known
        ]

    def destroy_newer(self) -> None:
        """Destroy all entities that the node has gained since; must be called by the executor's thread."""
        for destroy in self.destroyers_of_newer():
            destroy()


def _without_frames(error: Exception) -> Exception:
    """Remove from an error all but its message: the frames that it passed hold what was loaded, such as a model."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
