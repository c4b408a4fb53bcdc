"""The API in this process: uvicorn on an already listening socket."""

import gc
import resource
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from tunefarm.server.listening import Listening

if TYPE_CHECKING:
    from uvicorn import Server

    from tunefarm_services.api.settings import ApiSettings
    from tunefarm_services.telemetry.request_spans import Application

GRACE_S: Final = 1
"""How long open requests, such as event streams, may continue after a stop signal."""
KEEP_ALIVE_S: Final = 15
COLLECT_EVERY_S: Final = 5.0
DESCRIPTORS: Final = 16_384
SWITCH_INTERVAL_S: Final = 0.0005
"""How long a request thread may hold the interpreter while the event loop waits: a tenth of Python's default."""


def api_server(app: "Application", listening: Listening, settings: "ApiSettings") -> "Server":
    """A server of ``app``. After SIGINT or SIGTERM its ``run`` stops the server and raises the signal again."""
    import uvicorn

    from tunefarm_services.api.http.http_protocol import bounded_protocol

    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=bounded_protocol(settings),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
            timeout_keep_alive=KEEP_ALIVE_S,
            ssl_certfile=None if listening.tls_certificate is None else str(listening.tls_certificate),
            ssl_keyfile=None if listening.tls_key is None else str(listening.tls_key),
        )
    )


def keep_for_good() -> None:
    """Exclude all objects that are loaded now from garbage collection.

    Collections become short, and forked processes keep sharing this memory, which the collector would write to.
    """
    gc.collect()
    gc.freeze()


def collect_now_and_then(every_s: float = COLLECT_EVERY_S) -> None:
    """Start a thread that collects all garbage every few seconds.

    By default Python collects the oldest generation only after thousands of requests. Each request leaves cycles, so
    the heap would grow to the largest amount of garbage and never shrink. A full collection takes 0.1 ms here.
    """

    def collect() -> None:
        while True:
            time.sleep(every_s)
            gc.collect()

    threading.Thread(target=collect, name="garbage", daemon=True).start()


def _allow_descriptors() -> None:
    """Raise the soft limit of open files. It is often 1,024, fewer than the connections that a process may hold."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def serve(server: "Server", listener: socket.socket) -> None:
    """Answer requests until SIGINT or SIGTERM."""
    _allow_descriptors()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    collect_now_and_then()
    server.run(sockets=[listener])
