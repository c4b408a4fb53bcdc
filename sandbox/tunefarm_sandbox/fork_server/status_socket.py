"""The socket on which a fork server, and at first the child, report the outcome of a request."""

import array
import contextlib
import select
import socket
from typing import Final

from tunefarm_schemas.frozen import Frozen

_MESSAGE_BYTES: Final = 64 << 10
_DESCRIPTOR_BYTES: Final = array.array("i").itemsize


class StatusSocket:
    """The parent's end. Each message is read whole."""

    def __init__(self, descriptor: int) -> None:
        """Take over ``descriptor``, a connected Unix socket that keeps messages apart."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=descriptor)

    @classmethod
    def pair(cls) -> "tuple[StatusSocket, int]":
        """Create the parent's end; return it and the descriptor of the server's."""
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(near.detach()), far.detach()

    def fileno(self) -> int:
        """The descriptor to wait on; -1 when closed."""
        return self._socket.fileno()

    def has_message(self, timeout_s: float | None) -> bool:
        """Wait for a message or the end of the server; None waits for ever."""
        descriptor = self._socket.fileno()
        if descriptor < 0:
            return False
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        return bool(waiting.poll(None if timeout_s is None else max(0.0, timeout_s) * 1000))

    def receive(self) -> tuple[bytes, int | None]:
        """Receive one message and its attached descriptor; an empty message when the server is gone."""
        try:
            data, ancillary, _, _ = self._socket.recvmsg(
                _MESSAGE_BYTES, socket.CMSG_SPACE(_DESCRIPTOR_BYTES), socket.MSG_CMSG_CLOEXEC
            )
        except OSError:
            return b"", None
        received = array.array("i")
        for _, _, content in ancillary:
            received.frombytes(content)
        return data, received[0] if received else None

    def close(self) -> None:
        """Close this end; idempotent."""
        self._socket.close()

    def __del__(self) -> None:
        if hasattr(self, "_socket"):
            self.close()


def answer(status: int, message: Frozen | bytes, *descriptors: int) -> None:
    """Send one message on a status socket without waiting; ignore it if the peer is gone."""
    data = message if isinstance(message, bytes) else message.model_dump_json().encode()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=status)
    try:
        with contextlib.suppress(OSError):
            connection.sendmsg([data], rights, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    finally:
        connection.detach()
