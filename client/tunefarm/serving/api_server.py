"""The API in this process: uvicorn over a socket that listens already."""

import gc
import socket
import sys
from typing import TYPE_CHECKING, Final

from tunefarm.serving.listening import Listening

if TYPE_CHECKING:
    from uvicorn import Server

    from tunefarm_services.telemetry.request_spans import Application

GRACE_S: Final = 1
"""How long open requests, such as streams of events, may go on after the order to stop."""
KEEP_ALIVE_S: Final = 15
SWITCH_INTERVAL_S: Final = 0.0005
"""How long a thread that answers may compute while the event loop waits for the interpreter: a tenth of the usual."""


def api_server(app: "Application", listening: Listening, most_connections: int) -> "Server":
    """A server of ``app``. Its ``run`` takes the socket, and returns after SIGINT or SIGTERM."""
    import uvicorn

    from tunefarm_services.api.http_protocol import PromptProtocol

    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=PromptProtocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=most_connections,
            timeout_graceful_shutdown=GRACE_S,
            timeout_keep_alive=KEEP_ALIVE_S,
            ssl_certfile=None if listening.tls_certificate is None else str(listening.tls_certificate),
            ssl_keyfile=None if listening.tls_key is None else str(listening.tls_key),
        )
    )


def serve(server: "Server", listener: socket.socket) -> None:
    """Answer requests until told to stop."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    # What was loaded stays for good. The garbage collector need not look at all of it while everybody waits.
    gc.collect()
    gc.freeze()
    server.run(sockets=[listener])
