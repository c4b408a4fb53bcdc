"""What makes libraries for a device, on this host or on another."""

from collections.abc import Sequence
from typing import Protocol

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_schemas.failure import TrialFailure
from tunefarm_schemas.tuning.measurement import MeasureTask
from tunefarm_workers.conversation.child_answer import OnWait
from tunefarm_workers.session.device.session_messages import LibraryShape, ReferencesBuilt


class Build(Protocol):
    """One library in the making. Its owner either listens to ``channel``, or calls one of the two that wait."""

    @property
    def channel(self) -> Channel:
        """Where ``LibraryBuilt`` and the library come, ``ReferencesBuilt`` and the library, or ``Broken``."""

    def taken_s(self, now_s: float) -> float:
        """Seconds by the clock for which it is known to have been compiled until ``now_s``; waiting does not count."""

    def used_s(self) -> float | None:
        """Processor time in seconds; None where it is not known."""

    def children(self) -> Sequence[Child]:
        """Children of this host that compute for it, to be held still while the clock runs."""

    def failure_of_end(self) -> TrialFailure:
        """Why the channel ended before all was said."""

    def wait(self, on_wait: OnWait) -> tuple[LibraryShape, bytes]:
        """The library, on the caller's thread. Raises ``ChildFailed`` with the reason why there is none."""

    def wait_for_references(self, on_wait: OnWait) -> tuple[ReferencesBuilt, bytes]:
        """The reference kernels, on the caller's thread. Raises ``ChildFailed``."""

    def close(self) -> None:
        """End it, if it goes on; harmless when repeated."""


class Compiler(Protocol):
    """Begins builds. Its methods are called from several threads, and return at once."""

    @property
    def is_here(self) -> bool:
        """Whether compiling takes this host's processors."""

    def candidate(self, order: MeasureTask, trace: str | None) -> Build:
        """Begin to compile ``trace`` for the task ``order``. Raises ``ForkFailed``."""

    def references(self, target: str, threads: int) -> Build:
        """Begin to compile the reference kernels for ``target``, as canonical JSON. Raises ``ForkFailed``."""

    def trouble(self) -> str:
        """Why nothing can be compiled now, for people; empty when it can."""

    def close(self) -> None:
        """Begin no more; harmless when repeated. Open builds end, and stay their owners' to close."""
