# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Where a robot and a server are tried out on one machine: a link of limited bandwidth, and a slow processor.

With root: network namespaces joined by a shaped link, and a control group. Without: both hold up what they send, and
the robot is stopped and continued many times a second.
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
    """What a benchmark does to robot and server.

    Attributes:
        shaping: tbf or sender.
        server_prefix: words before the server's command.
    """

    shaping: str
    server_prefix: Sequence[str] = ()

    def __init__(self, processor: LimitedCpu | DutyCycle) -> None:
        self._processor = processor

    @property
    def processor_limit(self) -> str:
        """How the robot is slowed down."""
        return self._processor.kind

    def limit_processor(self, pid: int) -> None:
        """Slow a process down from now on."""
        self._processor.take(pid)

    @abstractmethod
    def together(self, links: Sequence[str]) -> Sequence[Sequence[str]]:
        """Links that nodes can meet one after another without being started anew."""

    @abstractmethod
    def parameters(self, link: str) -> Mapping[str, str]:
        """What both nodes are told, to be on this link."""

    @abstractmethod
    def link(self, trace: Trace) -> AbstractContextManager[None]:
        """While it lasts the link is such."""


class Namespaces(Testbed):
    """With root."""

    shaping = "tbf"

    def __init__(self, processor: LimitedCpu | DutyCycle, shaped: ShapedLink) -> None:
        super().__init__(processor)
        self._shaped = shaped
        self.server_prefix = shaped.prefix

    def together(self, links: Sequence[str]) -> Sequence[Sequence[str]]:
        """All."""
        return [links]

    def parameters(self, link: str) -> Mapping[str, str]:
        """None are needed."""
        return {}

    @contextmanager
    def link(self, trace: Trace) -> Iterator[None]:
        """As :meth:`Testbed.link`; a trace starts from its beginning. Afterwards the link is fast."""
        done = threading.Event()
        self._shaped.limit(trace.at(0.0))
        with ThreadPoolExecutor(1, "link") as thread:
            following = thread.submit(self._follow, trace, done)
            try:
                yield
            finally:
                done.set()
        self._shaped.limit(_MOST_MBIT_S)
        following.result()  # a link that could not be shaped is not what was asked for

    def _follow(self, trace: Trace, done: threading.Event) -> None:
        started = time.monotonic()
        while not (trace.is_constant or done.wait(_STEP_S)):
            self._shaped.limit(trace.at(time.monotonic() - started))


class SideBySide(Testbed):
    """Without root."""

    shaping = "sender"

    def together(self, links: Sequence[str]) -> Sequence[Sequence[str]]:
        """None: each has parameters of its own."""
        return [[link] for link in links]

    def parameters(self, link: str) -> Mapping[str, str]:
        """As :meth:`Testbed.parameters`."""
        return {"server.limit_link": link}

    def link(self, trace: Trace) -> AbstractContextManager[None]:
        """The nodes see to it."""
        return nullcontext()


@contextmanager
def open_testbed(robot_cores: float) -> Iterator[Testbed]:
    """The best that this machine allows."""
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
