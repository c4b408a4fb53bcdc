"""A compiler whose builds end when the test decides."""

import threading
from collections.abc import Callable

from benchmarks.kernel_library import kernel_library
from tunefarm_sandbox.fork_server.fork_server import ForkFailed
from tunefarm_workers.conversation.child_answer import canceled
from tunefarm_workers.session.device.session_messages import LibraryShape


class HeldBuild:
    def __init__(self, trace: str | None) -> None:
        self.trace = trace
        self.done = threading.Event()
        self.failed: Exception | None = None
        self.library = kernel_library()
        self.is_closed = False

    def wait(self, on_wait: Callable[[], bool]) -> tuple[LibraryShape, bytes]:
        while not self.done.wait(0.02):
            if not on_wait():
                raise canceled()
        if self.failed is not None:
            raise self.failed
        return LibraryShape(entry="main"), self.library

    def close(self) -> None:
        self.is_closed = True


class HeldCompiler:
    def __init__(self) -> None:
        self.builds: list[HeldBuild] = []
        self.refusal: ForkFailed | None = None
        self.is_alive = True

    def candidate(self, _task: object, trace: str | None) -> HeldBuild:
        if self.refusal is not None:
            raise self.refusal
        self.builds.append(HeldBuild(trace))
        return self.builds[-1]
