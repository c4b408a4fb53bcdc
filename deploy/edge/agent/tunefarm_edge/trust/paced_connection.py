"""HTTP connections that end if a server sends too little for too long, unnoticed by a timeout of single reads."""

import http.client
import io
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import urllib3


class TooSlow(OSError):
    """The server sent less than the pace requires."""


@dataclass(frozen=True)
class Pace:
    """What a server must send, from the first byte of an answer to its last.

    Attributes:
        window_s: how long it may send less.
        least_bytes_per_s: over each window.
    """

    window_s: float = 60.0
    least_bytes_per_s: float = 256.0


class PaceMeter:
    """Compares what arrived with a pace.

    Raises:
        TooSlow: from ``arrived``.
    """

    def __init__(self, pace: Pace, clock: Callable[[], float] = time.monotonic) -> None:
        self._pace, self._clock = pace, clock
        self._began_s, self._came = clock(), 0

    def arrived(self, size_bytes: int) -> None:
        """Count bytes, and judge the window if it is over."""
        self._came += size_bytes
        passed_s = self._clock() - self._began_s
        if passed_s < self._pace.window_s:
            return
        if self._came < self._pace.least_bytes_per_s * passed_s:
            raise TooSlow(f"{self._came} bytes in {passed_s:.0f} s")
        self._began_s, self._came = self._clock(), 0


class _PacedReader(io.RawIOBase):
    """What a socket receives, each receipt measured."""

    def __init__(self, raw: io.RawIOBase, meter: PaceMeter) -> None:
        self._raw, self._meter = raw, meter

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        received: int | None = self._raw.readinto(buffer)
        if received:
            self._meter.arrived(received)
        return received

    def close(self) -> None:
        self._raw.close()
        super().close()


def paced_pool(pace: Pace, timeout: urllib3.Timeout, retries: urllib3.Retry) -> urllib3.PoolManager:
    """A pool whose connections keep a pace."""

    class PacedResponse(http.client.HTTPResponse):
        def __init__(self, sock: socket.socket, *arguments: Any, **named: Any) -> None:
            super().__init__(sock, *arguments, **named)
            self.fp = io.BufferedReader(_PacedReader(self.fp.detach(), PaceMeter(pace)))

    class PacedHttp(urllib3.connection.HTTPConnection):
        response_class = PacedResponse

    class PacedHttps(urllib3.connection.HTTPSConnection):
        response_class = PacedResponse

    class HttpPool(urllib3.HTTPConnectionPool):
        ConnectionCls = PacedHttp

    class HttpsPool(urllib3.HTTPSConnectionPool):
        ConnectionCls = PacedHttps

    manager = urllib3.PoolManager(timeout=timeout, retries=retries)
    manager.pool_classes_by_scheme = {"http": HttpPool, "https": HttpsPool}
    return manager


PACE: Final = Pace()
