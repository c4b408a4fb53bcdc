"""Compiles in confined children of this host."""

from pathlib import Path

from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.tuning.measurement import MeasureTask
from tunefarm_workers.conversation.farm_settings import FarmSettings
from tunefarm_workers.session.compiler.library_build import LibraryBuild, OrderIn
from tunefarm_workers.session.device.session_messages import BuildOrder, ReferenceBuildOrder, Toolchain


class LocalCompiler:
    """Compiles each library in a child of its own."""

    is_here = True

    def __init__(self, fork_server: ForkServer, scratch: Path, settings: FarmSettings, toolchain: Toolchain) -> None:
        """``scratch`` is a folder for this process alone, in which each build creates its own."""
        self._fork_server = fork_server
        self._scratch = scratch
        self._settings = settings
        self._toolchain = toolchain

    def candidate(self, order: MeasureTask, trace: str | None) -> LibraryBuild:
        """Begin to compile ``trace`` for the task ``order``. Raises ``ForkFailed``."""

        def payload(folder: str) -> BuildOrder:
            return BuildOrder(
                module_json=order.module_json,
                target=order.target,
                abi=order.abi,
                callees=order.callees,
                trace=trace,
                folder=folder,
                toolchain=self._toolchain,
            )

        return self._begin("run", payload)

    def references(self, target: str, threads: int) -> LibraryBuild:
        """Begin to compile the reference kernels. Raises ``ForkFailed``."""

        def payload(folder: str) -> ReferenceBuildOrder:
            return ReferenceBuildOrder(target=target, threads=threads, folder=folder, toolchain=self._toolchain)

        return self._begin("run_references", payload)

    def trouble(self) -> str:
        """Empty: a child that cannot be forked raises ``ForkFailed``."""
        return ""

    def close(self) -> None:
        """Do nothing: the owner of a build closes it."""

    def _begin(self, entry: str, payload: OrderIn) -> LibraryBuild:
        return LibraryBuild(
            self._fork_server,
            f"tunefarm_workers.session.compiler.build_child:{entry}",
            payload,
            scratch=self._scratch,
            limits=self._settings.child_limits(),
            toolchain=self._toolchain,
        )
