"""The parent's handle of a forked child."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Sequence
from typing import Literal, Protocol, Self

from tunefarm_sandbox.channel.captured_output import CapturedOutput
from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.confinement import linux
from tunefarm_sandbox.fork_server.fork_failed import ForkFailed
from tunefarm_sandbox.fork_server.fork_request import CONFINED, EXIT_STATUS, ForkRefused
from tunefarm_sandbox.fork_server.status_socket import StatusSocket
from tunefarm_schemas.frozen import Frozen


class Exit(Frozen):
    """How a child ended. ``code`` is its exit code or the number of the signal that killed it.

    ``peak_memory_bytes`` is its peak resident memory, including pages shared with its server; 0 when unknown.
    """

    kind: Literal["exited", "signaled"]
    code: int
    peak_memory_bytes: int

    def described(self) -> str:
        """The end in words: "exited with code 1" or "killed by SIGSEGV"."""
        if self.kind == "exited":
            return f"exited with code {self.code}"
        try:
            return f"killed by {signal.Signals(self.code).name}"
        except ValueError:
            return f"killed by signal {self.code}"


class ServerOfChildren(Protocol):
    """The fork server that a child has become."""

    def children(self) -> "Sequence[Child]":
        """Its children whose handles are still referenced."""


class Child:
    """A confined child. Its parent owns it: garbage collection of the handle kills the child.

    Threads may share the handle, but not its channel.

    Attributes:
        pid: its process id, which is also its process group.
        channel: the parent's end of its channel. Untrusted code wrote what arrives there.
        server: the handle of the fork server that it has become; ``ForkServer.within`` sets it.
    """

    def __init__(self, pid: int, channel: Channel, pidfd: int, status: StatusSocket, output: CapturedOutput) -> None:
        self.pid = pid
        self.channel = channel
        self._pidfd = pidfd
        self._status = status
        self._output = output
        self._exit: Exit | None = None
        self._ending = threading.RLock()
        self.server: ServerOfChildren | None = None

    def stop(self) -> None:
        """Stop the child, the processes that it started and, if it is a server, its children."""
        self._signal(signal.SIGSTOP)
        if self.server is not None:
            for child in self.server.children():
                child.stop()

    def resume(self) -> None:
        """Continue the child after ``stop``."""
        if self.server is not None:
            for child in self.server.children():
                child.resume()
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the child and all that it started, stopped or not. ``exit`` waits for its end.

        Processes that left its process group, such as children of a fork server, end within milliseconds after it.
        """
        self._signal(signal.SIGKILL)

    def exit(self, timeout_s: float | None = 0) -> Exit | None:
        """How it ended, or None if it still runs after ``timeout_s``; None waits for ever.

        A child that died with its server counts as killed by SIGKILL.
        """
        if self._exit is None and self._status.fileno() >= 0 and self._status.has_message(timeout_s):
            with self._ending:
                if self._exit is None:
                    self._ended(self._status.receive()[0])
        return self._exit

    def wait_until_confined(self, deadline_s: float) -> None:
        """Wait until a new child reports that it is confined, or until the monotonic ``deadline_s``; used by ``fork``.

        Raises:
            ForkFailed: it could not be confined, or died before; it is gone.
        """
        if not self._status.has_message(max(0.0, deadline_s - time.monotonic())):
            self.close()
            raise ForkFailed("server_lost", "the child was not confined in time")
        data, _ = self._status.receive()
        if data == CONFINED:
            return
        if data.startswith(b"{"):
            refused = ForkRefused.model_validate_json(data)
            self.close()
            raise ForkFailed(refused.kind, refused.reason)
        self._ended(data)
        died = f"the child was {_decoded(data).described()} before it was confined. {self.output()}".strip()
        self.close()
        raise ForkFailed("confinement" if data else "server_lost", died)

    def output(self, tail_bytes: int = 8192) -> str:
        """The last output of the child and its native code to standard output and error; available after its end."""
        return self._output.tail(tail_bytes)

    def close(self) -> None:
        """Kill it if it still runs, and release everything that it held in this process; idempotent."""
        self.kill()
        self.channel.close()
        self._output.close()
        with self._ending:
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "server"):
            self.close()

    def _ended(self, data: bytes) -> None:
        if not data:
            self.kill()  # its server is gone, and should have killed it
        self._exit = _decoded(data)
        self._release()

    def _release(self) -> None:
        self._status.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
        self._pidfd = -1

    def _signal(self, number: signal.Signals) -> None:
        with self._ending, contextlib.suppress(ProcessLookupError):
            if self._pidfd < 0:
                return
            try:
                signal.pidfd_send_signal(self._pidfd, number, None, linux.PIDFD_SIGNAL_PROCESS_GROUP)
            except OSError as error:
                if isinstance(error, ProcessLookupError):
                    raise
                self._signal_without_group_flag(number)

    def _signal_without_group_flag(self, number: signal.Signals) -> None:
        """Signal the group on kernels before 6.9. The pidfd shows that the pid was not reused."""
        signal.pidfd_send_signal(self._pidfd, 0)
        os.killpg(self.pid, number)


def _decoded(data: bytes) -> Exit:
    if len(data) != EXIT_STATUS.size:
        return Exit(kind="signaled", code=int(signal.SIGKILL), peak_memory_bytes=0)
    status, peak_memory_bytes = EXIT_STATUS.unpack(data)
    if os.WIFSIGNALED(status):
        return Exit(kind="signaled", code=os.WTERMSIG(status), peak_memory_bytes=peak_memory_bytes)
    return Exit(kind="exited", code=os.WEXITSTATUS(status), peak_memory_bytes=peak_memory_bytes)
