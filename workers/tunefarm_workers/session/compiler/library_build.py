"""A library being compiled by a child in a folder of its own."""

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_workers.conversation.child_answer import ChildFailed, OnWait, answer_of
from tunefarm_workers.conversation.child_death import failure_of_death
from tunefarm_workers.conversation.shared_memory import NotSealed, SharedMemory
from tunefarm_workers.session.compiler.build_answer import built_library, built_references
from tunefarm_workers.session.device.session_messages import (
    BuildOrder,
    LibraryShape,
    ReferenceBuildOrder,
    ReferencesBuilt,
    Toolchain,
)
from tunefarm_workers.timing.processor_clock import processor_time_s

_BUILD_S = 120.0
_BUILD_CPU_S = 4 * _BUILD_S
"""RLIMIT_CPU ends the compiler even if this process died."""
_GONE_S = 1.0

OrderIn = Callable[[str], BuildOrder | ReferenceBuildOrder]
"""Returns the order for a build in this folder."""


class LibraryBuild:
    """Forks the child. ``close`` ends it and removes the folder, which this object created."""

    def __init__(
        self,
        fork_server: ForkServer,
        entry: str,
        order: OrderIn,
        *,
        scratch: Path,
        limits: Limits,
        toolchain: Toolchain,
    ) -> None:
        """Begin to compile ``order`` in the child ``entry``, which may use ``toolchain``. Raises ``ForkFailed``."""
        scratch.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix="build-", dir=scratch))
        self._folder.chmod(0o777)
        self._began_s = time.monotonic()
        try:
            self._child: Child = fork_server.fork(
                entry,
                order(str(self._folder)).model_dump_json().encode(),
                limits=limits.with_processor_time(_BUILD_CPU_S),
                confinement=Confinement(
                    readable=toolchain.readable,
                    writable=(str(self._folder),),
                    may_fork=True,
                    may_exec=True,
                    programs=toolchain.programs,
                ),
            )
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    @property
    def channel(self) -> Channel:
        """The child's channel."""
        return self._child.channel

    def taken_s(self, now_s: float) -> float:
        """Seconds since the build began."""
        return now_s - self._began_s

    def used_s(self) -> float | None:
        """Processor time of the child in seconds; None once it ended."""
        return processor_time_s(self._child.pid)

    def children(self) -> tuple[Child, ...]:
        """The child."""
        return (self._child,)

    def failure_of_end(self) -> TrialFailure:
        """How the child died."""
        return failure_of_death(self._child.exit(timeout_s=_GONE_S), "building", self._child.output())

    def wait(self, on_wait: OnWait) -> tuple[LibraryShape, bytes]:
        """Wait for the library. Raises ``ChildFailed`` with the reason if there is none."""
        return built_library(lambda: answer_of(self._child, _BUILD_S, "building", on_wait))

    def wait_for_references(self, on_wait: OnWait) -> tuple[ReferencesBuilt, bytes]:
        """Wait for the reference kernels. Raises ``ChildFailed``."""
        return built_references(lambda: answer_of(self._child, _BUILD_S, "building", on_wait))

    def close(self) -> None:
        """End the child and remove its folder. Idempotent."""
        self._child.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def in_memory(library: bytes) -> SharedMemory:
    """A library in sealed memory, which a child can load and no process can change.

    Raises:
        ChildFailed: another process modified it before it was sealed, or still could.
    """
    try:
        return SharedMemory.holding("library", library)
    except NotSealed as error:
        failure = TrialFailure(reason=FailureReason.DEVICE_LOST, message=f"The library is not safe: {error}")
        raise ChildFailed(failure) from error
