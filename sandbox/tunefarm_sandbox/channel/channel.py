"""Framed bytes between two processes."""

import array
import os
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import Final

MAX_MESSAGE_BYTES: Final = 256 << 20
MAX_DESCRIPTORS: Final = 64

_MAGIC: Final = b"tfm1"
_HEADER: Final = struct.Struct(">4sI")
_DESCRIPTOR_BYTES: Final = array.array("i").itemsize


class ChannelClosed(Exception):
    """Raised when no further message can be sent or received: the peer closed, died, or sent an invalid frame."""


class Channel:
    """One end of a Unix stream socket that carries whole messages and, on request, descriptors.

    ``receive`` reads no byte beyond its message, so a readable ``fileno()`` always means that a message has begun.
    Only ``receive_with_descriptors`` accepts descriptors from the peer; with ``receive`` the kernel drops them.
    A channel never interprets the content of a message. One thread at a time may send, and one may receive.
    """

    def __init__(self, descriptor: int) -> None:
        """Take over ``descriptor``, a connected Unix stream socket."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=descriptor)
        self._begun = bytearray()
        self._begun_descriptors: list[int] = []

    @classmethod
    def pair(cls) -> tuple["Channel", int]:
        """Create a channel; return it and the descriptor of its other end, which closes on exec."""
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(near.detach()), far.detach()

    def fileno(self) -> int:
        """The descriptor to wait on; -1 when closed."""
        return self._socket.fileno()

    @property
    def hung_up(self) -> bool:
        """Whether this end is closed or the peer is gone, even if messages from it are still unread."""
        descriptor = self._socket.fileno()
        if descriptor < 0:
            return True
        return _is_ready(descriptor, select.POLLRDHUP)

    @property
    def has_news(self) -> bool:
        """Whether ``receive`` would return or raise at once."""
        descriptor = self._socket.fileno()
        return descriptor < 0 or _is_ready(descriptor, select.POLLIN)

    def send(self, message: bytes, descriptors: Sequence[int] = (), *, timeout_s: float | None = None) -> None:
        """Send one whole message of at most ``MAX_MESSAGE_BYTES``.

        Raises:
            ChannelClosed: the peer is gone.
            TimeoutError: the peer did not read it in time; the channel is closed, as it may hold part of a message.
            ValueError: the message is too long or has too many descriptors.
        """
        if len(message) > MAX_MESSAGE_BYTES or len(descriptors) > MAX_DESCRIPTORS:
            raise ValueError(f"a message of {len(message)} bytes with {len(descriptors)} descriptors is too large")
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        parts = [memoryview(_HEADER.pack(_MAGIC, len(message))), memoryview(message)]
        while parts:
            sent = self._send_some(parts, rights, deadline_s)
            rights = []
            parts = _remaining(parts, sent)

    def receive(self, timeout_s: float | None = None) -> bytes:
        """Receive one whole message; None waits for ever. After a timeout the next call continues with it.

        Raises:
            ChannelClosed: the peer is gone, or sent an invalid frame.
            TimeoutError: no whole message arrived within ``timeout_s``.
        """
        return self._receive(timeout_s, descriptors_wanted=False)

    def receive_with_descriptors(self, timeout_s: float | None = None) -> tuple[bytes, list[int]]:
        """Like ``receive``, with the descriptors that the peer attached. The caller closes them."""
        message = self._receive(timeout_s, descriptors_wanted=True)
        descriptors, self._begun_descriptors = self._begun_descriptors, []
        return message, descriptors

    def close(self) -> None:
        """Close this end; idempotent."""
        for descriptor in self._begun_descriptors:
            os.close(descriptor)
        self._begun_descriptors = []
        self._socket.close()

    def forget(self) -> None:
        """Release the descriptor without closing it, for the copy of this object in a forked child."""
        self._socket.detach()

    def __del__(self) -> None:
        if hasattr(self, "_socket"):
            self.close()

    def _receive(self, timeout_s: float | None, *, descriptors_wanted: bool) -> bytes:
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while len(self._begun) < _HEADER.size:
            self._begun += self._read_some(_HEADER.size - len(self._begun), deadline_s, descriptors_wanted)
        length = self._announced_length()
        while len(self._begun) < _HEADER.size + length:
            self._begun += self._read_some(min(_HEADER.size + length - len(self._begun), 1 << 20), deadline_s, False)
        message = bytes(memoryview(self._begun)[_HEADER.size :])
        self._begun = bytearray()
        return message

    def _announced_length(self) -> int:
        magic, length = _HEADER.unpack_from(self._begun)
        if magic != _MAGIC or length > MAX_MESSAGE_BYTES:
            self.close()
            raise ChannelClosed("the peer sent an invalid frame")
        return int(length)

    def _read_some(self, size: int, deadline_s: float | None, descriptors_wanted: bool) -> bytes:
        while True:
            try:
                data = self._read_rights(size) if descriptors_wanted else self._socket.recv(size, socket.MSG_DONTWAIT)
            except BlockingIOError:
                self._wait(select.POLLIN, deadline_s)
            except OSError as error:
                raise ChannelClosed(f"the channel broke: {error}") from error
            else:
                if not data:
                    raise ChannelClosed("the peer closed the channel")
                return data

    def _read_rights(self, size: int) -> bytes:
        room = socket.CMSG_SPACE(MAX_DESCRIPTORS * _DESCRIPTOR_BYTES)
        data, ancillary, _, _ = self._socket.recvmsg(size, room, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC)
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                received = array.array("i")
                received.frombytes(content[: len(content) - len(content) % _DESCRIPTOR_BYTES])
                self._begun_descriptors.extend(received)
        return data

    def _send_some(
        self,
        parts: list[memoryview],
        rights: "list[tuple[int, int, array.array[int]]]",
        deadline_s: float | None,
    ) -> int:
        while True:
            try:
                return self._socket.sendmsg(parts, rights, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                try:
                    self._wait(select.POLLOUT, deadline_s)
                except TimeoutError:
                    self.close()
                    raise
            except OSError as error:
                raise ChannelClosed(f"the channel broke: {error}") from error

    def _wait(self, event: int, deadline_s: float | None) -> None:
        waiting = select.poll()
        waiting.register(self._socket, event)
        if deadline_s is None:
            waiting.poll()
            return
        left_s = deadline_s - time.monotonic()
        if left_s <= 0 or not waiting.poll(left_s * 1000):
            raise TimeoutError("the peer took too long")


def _is_ready(descriptor: int, event: int) -> bool:
    waiting = select.poll()
    waiting.register(descriptor, event)
    return bool(waiting.poll(0))


def _remaining(parts: list[memoryview], sent: int) -> list[memoryview]:
    left = []
    for part in parts:
        if sent < len(part):
            left.append(part[sent:])
        sent = max(0, sent - len(part))
    return left
