"""The parent's handle of a fork server."""

import contextlib
import os
import signal
import subprocess
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import Final, Self

from tunefarm_sandbox.channel.captured_output import CapturedOutput
from tunefarm_sandbox.channel.channel import MAX_DESCRIPTORS, Channel, ChannelClosed
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.child import Child, Exit
from tunefarm_sandbox.fork_server.fork_failed import ForkFailed
from tunefarm_sandbox.fork_server.fork_request import (
    DESCRIPTORS_OF_REQUEST,
    Forked,
    ForkRefused,
    ForkRequest,
    Ready,
)
from tunefarm_sandbox.fork_server.server_process import ServerProcess, start_server_process
from tunefarm_sandbox.fork_server.status_socket import StatusSocket

__all__ = ["Child", "Exit", "ForkFailed", "ForkServer"]

FORK_TIMEOUT_S: Final = 60.0
"""Time limit of a fork, including the server's preloading."""

_END_TIMEOUT_S: Final = 2.0
_FAILURE_BYTES: Final = 4096


class ForkServer:
    """The handle of a fork server. Threads may share it."""

    def __init__(
        self,
        channel: Channel,
        output: CapturedOutput | None,
        process: "subprocess.Popen[bytes] | None",
        parent: Child | None,
    ) -> None:
        """Used by ``of`` and ``within``."""
        self._channel = channel
        self._output = output
        self._process = process
        self._parent = parent
        self._sending = threading.Lock()
        self._receiving = threading.Lock()
        self._registering = threading.Lock()
        self._children: weakref.WeakSet[Child] = weakref.WeakSet()
        self._ready: Ready | None = None
        # Not __del__: in a reference cycle, that of the process may come first.
        self._end = weakref.finalize(self, _end_server, channel, output, process) if process is not None else None
        if self._end is not None:
            self._end.atexit = False

    @classmethod
    def start(cls, preload: Sequence[str], *, environment: Mapping[str, str] | None = None) -> "ForkServer":
        """Start a server process and return at once, while it preloads; requests to fork wait for that.

        The arguments are those of ``start_server_process``.
        """
        return cls.of(start_server_process(preload, environment))

    @classmethod
    def of(cls, started: ServerProcess) -> "ForkServer":
        """Take over a server process that was started earlier."""
        return cls(started.channel, started.output, started.process, None)

    @classmethod
    def within(cls, parent: Child) -> "ForkServer":
        """Return the server that ``parent`` has become, or is about to become, by calling ``serve`` on its channel.

        A parent has one handle, whose locks keep the server's answers apart.
        """
        if not isinstance(parent.server, ForkServer):
            parent.server = cls(parent.channel, None, None, parent)
        return parent.server

    @property
    def alive(self) -> bool:
        """Whether the server can accept requests. False once it is dead, even if its children still run."""
        if self._channel.hung_up:
            return False
        if self._process is not None:
            return self._process.poll() is None
        return self._parent is not None and self._parent.exit() is None

    @property
    def pid(self) -> int:
        """The process identifier, in this process's namespace."""
        if self._process is not None:
            return self._process.pid
        assert self._parent is not None, "a server is a process of its own or a child"
        return self._parent.pid

    @property
    def failure(self) -> str:
        """Why the server never became ready, with its output; empty when unknown."""
        said = self._ready.failure if self._ready is not None else ""
        printed = self._output.tail(_FAILURE_BYTES) if self._output is not None else ""
        return f"{said} {printed}".strip()

    def ready(self, timeout_s: float | None) -> bool:
        """Wait until everything is preloaded; False if that takes longer than ``timeout_s`` or fails."""
        with self._receiving:
            if self._ready is None:
                try:
                    self._ready = Ready.model_validate_json(self._channel.receive(timeout_s))
                except (TimeoutError, ChannelClosed):
                    return False
            return not self._ready.failure

    def fork(
        self,
        entry: str,
        payload: bytes = b"",
        *,
        limits: Limits,
        confinement: Confinement,
        descriptors: Sequence[int] = (),
        timeout_s: float = FORK_TIMEOUT_S,
    ) -> Child:
        """Fork a child that calls ``entry``; return once it is confined and about to call it.

        ``entry`` is "package.module:function", called as ``function(channel, payload, descriptors)``; the caller keeps
        its own copies of ``descriptors``.

        Raises:
            ForkFailed: no child was forked. Unless its kind is "server_lost", the server continues.
        """
        if len(descriptors) > MAX_DESCRIPTORS - DESCRIPTORS_OF_REQUEST:
            raise ValueError(f"{len(descriptors)} descriptors are too many")
        request = ForkRequest(entry=entry, limits=limits, confinement=confinement)
        deadline_s = time.monotonic() + timeout_s
        child = self._forked(request, descriptors, deadline_s)
        with contextlib.suppress(ChannelClosed, TimeoutError):  # the server is dead; the next line reports it
            child.channel.send(payload, timeout_s=max(0.0, deadline_s - time.monotonic()))
        child.wait_until_confined(deadline_s)
        with self._registering:
            self._children.add(child)
        return child

    def children(self) -> list[Child]:
        """Its children whose handles are still referenced."""
        with self._registering:
            return list(self._children)

    def close(self) -> None:
        """End the server and all its children, and wait until they are gone; idempotent."""
        if self._end is not None:
            self._end()
        if self._parent is not None:
            self._channel.close()
            self._parent.kill()
            self._parent.exit(_END_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _forked(self, request: ForkRequest, descriptors: Sequence[int], deadline_s: float) -> Child:
        channel, child_end = Channel.pair()
        status, server_end = StatusSocket.pair()
        output = CapturedOutput()
        try:
            self._ask(request, (child_end, server_end, output.fileno(), *descriptors), deadline_s)
            os.close(server_end)
            server_end = -1
            pid, pidfd = self._answer(status, deadline_s)
        except BaseException:
            status.close()
            output.close()
            channel.close()
            raise
        finally:
            os.close(child_end)
            if server_end >= 0:
                os.close(server_end)
        return Child(pid, channel, pidfd, status, output)

    def _ask(self, request: ForkRequest, descriptors: tuple[int, ...], deadline_s: float) -> None:
        try:
            with self._sending:
                timeout_s = max(0.0, deadline_s - time.monotonic())
                self._channel.send(request.model_dump_json().encode(), descriptors, timeout_s=timeout_s)
        except (ChannelClosed, TimeoutError) as error:
            raise self._lost() from error

    def _answer(self, status: StatusSocket, deadline_s: float) -> tuple[int, int]:
        if not status.has_message(max(0.0, deadline_s - time.monotonic())):
            raise ForkFailed("server_lost", "the fork server did not answer in time")
        data, pidfd = status.receive()
        if not data:
            raise self._lost()
        if pidfd is None:
            refused = ForkRefused.model_validate_json(data)
            raise ForkFailed(refused.kind, refused.reason)
        return Forked.model_validate_json(data).pid, pidfd

    def _lost(self) -> ForkFailed:
        self.ready(0)
        return ForkFailed("server_lost", f"the fork server is gone. {self.failure}".strip())


def _end_server(channel: Channel, output: CapturedOutput | None, process: "subprocess.Popen[bytes]") -> None:
    channel.close()
    try:
        process.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
    if output is not None:
        output.close()
