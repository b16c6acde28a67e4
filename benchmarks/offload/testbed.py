# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Places to try out a robot and a server on one machine: a link of limited bandwidth, and a slow processor.

With root: network namespaces joined by a shaped link, and a control group. Without: both nodes delay what they send,
and the robot is stopped and continued many times a second.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

from benchmarks.offload.limited_cpu import DutyCycle, LimitedCpu
from benchmarks.offload.shaped_link import LinkShapingError, ShapedLink
from cacheinf_ros.errors import CacheinfError
from cacheinf_ros.offload.protocol.limited_link import Trace

_log = logging.getLogger(__name__)
_STEP_S = 0.25  # how often a shaped link follows a trace
_MOST_MBIT_S = 1000.0


class Testbed(ABC):
    """The limits that a benchmark sets on robot and server.

    Attributes:
        shaping: how the link is limited: tbf or sender.
        server_prefix: words to put before the server's command.
    """

    shaping: str
    server_prefix: Sequence[str] = ()

    def __init__(self, processor: LimitedCpu | DutyCycle) -> None:
        self._processor = processor

    @property
    def processor_limit(self) -> str:
        """The way in which the robot is slowed down, in a word."""
        return self._processor.kind

    def limit_processor(self, pid: int) -> None:
        """Slow a process down from now on."""
        self._processor.take(pid)

    @abstractmethod
    def together(self, links: Sequence[str]) -> Sequence[Sequence[str]]:
        """Group the links: nodes can use those of a group one after another without a restart."""

    @abstractmethod
    def parameters(self, link: str) -> Mapping[str, str]:
        """Return the parameters that both nodes need to use this link."""

    @abstractmethod
    def link(self, trace: Trace) -> AbstractContextManager[None]:
        """Return a context in which the link follows ``trace``."""


class Namespaces(Testbed):
    """The testbed with root, with a shaped link between network namespaces."""

    shaping = "tbf"

    def __init__(self, processor: LimitedCpu | DutyCycle, shaped: ShapedLink) -> None:
        super().__init__(processor)
        self._shaped = shaped
        self.server_prefix = shaped.prefix

    def together(self, links: Sequence[str]) -> Sequence[Sequence[str]]:
        """Return one group of all links."""
        return [links]

    def parameters(self, link: str) -> Mapping[str, str]:
        """Return no parameters: none are needed."""
        return {}

    @contextmanager
    def link(self, trace: Trace) -> Iterator[None]:
        """Implement :meth:`Testbed.link`: a trace starts from its beginning, and afterwards the link is fast."""
        done = threading.Event()
        self._shaped.limit(trace.at(0.0))
        with ThreadPoolExecutor(1, "link") as thread:
            following = thread.submit(self._follow, trace, done)
            try:
                yield
            finally:
                done.set()
        self._shaped.limit(_MOST_MBIT_S)
        following.result()  # raises where the link could not be shaped as asked

    def _follow(self, trace: Trace, done: threading.Event) -> None:
        started = time.monotonic()
        while not (trace.is_constant or done.wait(_STEP_S)):
            self._shaped.limit(trace.at(time.monotonic() - started))


class SideBySide(Testbed):
    """The testbed without root, where the nodes limit what they send."""

    shaping = "sender"

    def together(self, links: Sequence[str]) -> Sequence[Sequence[str]]:
        """Return each link in a group of its own, as each needs other parameters."""
        return [[link] for link in links]

    def parameters(self, link: str) -> Mapping[str, str]:
        """Implement :meth:`Testbed.parameters`."""
        return {"server.limit_link": link}

    def link(self, trace: Trace) -> AbstractContextManager[None]:
        """Return an empty context: the nodes limit the link themselves."""
        return nullcontext()


@contextmanager
def open_testbed(robot_cores: float) -> Iterator[Testbed]:
    """Open the best testbed that this machine allows."""
    with ExitStack() as stack:
        processor = _processor(stack, robot_cores)
        try:
            testbed: Testbed = Namespaces(processor, stack.enter_context(ShapedLink(_MOST_MBIT_S)))
        except LinkShapingError as error:
            _log.warning("%s; robot and server hold up what they send themselves", error)
            testbed = SideBySide(processor)
        yield testbed


def _processor(stack: ExitStack, cores: float) -> LimitedCpu | DutyCycle:
    try:
        return stack.enter_context(LimitedCpu(cores))
    except CacheinfError as error:
        _log.warning("%s; the robot is stopped and continued instead", error)
        return stack.enter_context(DutyCycle(cores))
