"""The API as a separate process: python -m tests.api.service HOME SOCKET_DESCRIPTOR."""

import socket
import sys
from pathlib import Path

import uvicorn

from tunefarm_services.api.application.app import create_app
from tunefarm_services.api.http.http_protocol import bounded_protocol
from tunefarm_services.api.routes import events
from tunefarm_services.api.settings import ApiSettings
from tunefarm_services.store import Store
from tunefarm_services.telemetry.logs import configure_logs

LOOK_S = 0.2
"""How often streams ask whether their tokens are still valid."""


def main(home: Path, descriptor: int) -> None:
    configure_logs("api", level="warning")
    events.TOKEN_LOOK_S = LOOK_S  # type: ignore[misc]
    settings = ApiSettings(home=home, body_bytes=1 << 20, body_deadline_s=5.0, header_deadline_s=1.5)
    store = Store.open(settings.database(), settings.blobs())
    config = uvicorn.Config(
        create_app(store, settings),
        http=bounded_protocol(settings),
        ws="none",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=descriptor)])
    store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
