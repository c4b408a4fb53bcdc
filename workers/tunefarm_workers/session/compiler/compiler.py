"""The port for compiling libraries for a device, on this host or on others."""

from collections.abc import Sequence
from typing import Protocol

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_schemas.failure import TrialFailure
from tunefarm_schemas.tuning.measurement import MeasureTask
from tunefarm_workers.conversation.child_answer import OnWait
from tunefarm_workers.session.device.session_messages import LibraryShape, ReferencesBuilt


class Build(Protocol):
    """A library being compiled. Its owner either listens to ``channel`` or calls one of the ``wait`` methods."""

    @property
    def channel(self) -> Channel:
        """Yields ``LibraryBuilt`` or ``ReferencesBuilt`` and then the library, or ``Broken``."""

    def taken_s(self, now_s: float) -> float:
        """Elapsed seconds of compilation until ``now_s``, without waiting for a lane."""

    def used_s(self) -> float | None:
        """Processor time in seconds; None if unknown."""

    def children(self) -> Sequence[Child]:
        """Children of this host that compile, to be held still while kernels are timed."""

    def failure_of_end(self) -> TrialFailure:
        """Why the channel ended before the library came."""

    def wait(self, on_wait: OnWait) -> tuple[LibraryShape, bytes]:
        """Wait for the library. Raises ``ChildFailed`` with the reason if there is none."""

    def wait_for_references(self, on_wait: OnWait) -> tuple[ReferencesBuilt, bytes]:
        """Wait for the reference kernels. Raises ``ChildFailed``."""

    def close(self) -> None:
        """End the build if it is under way. Idempotent."""


class Compiler(Protocol):
    """Begins builds. Its methods are called from several threads and return at once."""

    @property
    def is_here(self) -> bool:
        """Whether builds use this host's processors."""

    def candidate(self, order: MeasureTask, trace: str | None) -> Build:
        """Begin to compile ``trace`` for the task ``order``. Raises ``ForkFailed``."""

    def references(self, target: str, threads: int) -> Build:
        """Begin to compile the reference kernels for ``target``, canonical JSON. Raises ``ForkFailed``."""

    def trouble(self) -> str:
        """Why nothing can be compiled now, as text to show; empty if it can."""

    def close(self) -> None:
        """Begin no more; harmless when repeated. Open builds end, and stay their owners' to close."""
