# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The error of a process that could not start; without torch."""

from cacheinf_ros.errors import CacheinfError


class StartError(CacheinfError):
    """A process could not start, for example because it has no such model: that says nothing against its machine.

    It is no :class:`LinkError`, so that nobody takes such a process for one that was lost with its machine.
    """
