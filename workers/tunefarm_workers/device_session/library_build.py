"""One library in the making: a child that compiles, and the folder it does it in."""

import os
import shutil
import tempfile
from pathlib import Path

from tunefarm_sandbox.child import Child
from tunefarm_sandbox.confinement import Confinement
from tunefarm_sandbox.fork_server import ForkServer
from tunefarm_sandbox.limits import Limits
from tunefarm_schemas.failure import TrialFailure
from tunefarm_schemas.measurement import MeasureTask
from tunefarm_workers.child_answer import ChildFailed, OnWait, answer_of
from tunefarm_workers.device_session.device_access import DeviceAccess
from tunefarm_workers.device_session.session_messages import (
    BuildOrder,
    LibraryShape,
    ReferenceBuildOrder,
    ReferencesBuilt,
    from_builder,
)
from tunefarm_workers.messages import Broken
from tunefarm_workers.shared_memory import SharedMemory

_BUILD_S = 120.0


class LibraryBuild:
    """Forks the child. ``close`` ends it and removes the folder, which was made for it alone."""

    def __init__(
        self,
        zygote: ForkServer,
        access: DeviceAccess,
        scratch: Path,
        limits: Limits,
        order: MeasureTask | None,
        trace: str | None,
    ) -> None:
        """Begin to compile ``trace`` for the task ``order``, or the reference kernels without one.

        Raises ``ForkFailed``.
        """
        scratch.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix="build-", dir=scratch))
        self._folder.chmod(0o777)
        try:
            self.child: Child = zygote.fork(
                f"tunefarm_workers.device_session.build_child:{'run_references' if order is None else 'run'}",
                self._order(access, order, trace),
                limits=limits,
                confinement=Confinement(
                    readable=access.build_readable,
                    writable=(str(self._folder),),
                    may_fork=True,
                    may_exec=True,
                    programs=access.build_programs,
                ),
            )
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def wait(self, on_wait: OnWait) -> tuple[LibraryShape, bytes]:
        """The library, on the caller's thread. Raises ``ChildFailed`` with the reason why there is none."""
        said = from_builder.validate_json(answer_of(self.child, _BUILD_S, "building", on_wait))
        if isinstance(said, Broken):
            raise ChildFailed(TrialFailure(reason=said.reason, message=said.message[:4000]))
        assert not isinstance(said, ReferencesBuilt), "reference kernels are waited for elsewhere"
        return said.shape, answer_of(self.child, _BUILD_S, "building", on_wait)

    def wait_for_references(self) -> tuple[ReferencesBuilt, bytes]:
        """The reference kernels. Raises ``ChildFailed``."""
        said = from_builder.validate_json(answer_of(self.child, _BUILD_S, "building", lambda: True))
        if isinstance(said, Broken):
            raise ChildFailed(TrialFailure(reason=said.reason, message=said.message[:4000]))
        assert isinstance(said, ReferencesBuilt), "the entry makes nothing else"
        return said, answer_of(self.child, _BUILD_S, "building", lambda: True)

    def close(self) -> None:
        """End the child and remove its folder; harmless when repeated."""
        self.child.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _order(self, access: DeviceAccess, order: MeasureTask | None, trace: str | None) -> bytes:
        folder = str(self._folder)
        if order is None:
            references = ReferenceBuildOrder(
                target=access.reference_target,
                threads=max(access.num_cores, 1),
                folder=folder,
                toolchain=access.toolchain,
            )
            return references.model_dump_json().encode()
        build = BuildOrder(
            module_json=order.module_json,
            target=order.target,
            abi=order.abi,
            trace=trace,
            folder=folder,
            toolchain=access.toolchain,
        )
        return build.model_dump_json().encode()


def in_memory(library: bytes) -> SharedMemory:
    """A library where a child can load it from: memory without a path, which is gone with its last descriptor."""
    memory = SharedMemory("library", max(len(library), 1))
    os.pwrite(memory.descriptor, library, 0)
    return memory
