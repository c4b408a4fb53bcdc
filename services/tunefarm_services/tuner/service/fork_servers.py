"""The process that search children are forked from, replaced when it dies."""

import threading
from collections.abc import Callable

from tunefarm_sandbox.fork_server.fork_server import ForkServer


class ForkServers:
    """Holds one fork server at a time. Thread-safe."""

    def __init__(self, start: Callable[[], ForkServer]) -> None:
        """``start`` starts a fork server and returns before it has finished loading."""
        self._start = start
        self._lock = threading.Lock()
        self._present: ForkServer | None = None

    def present(self) -> ForkServer:
        """A live fork server. Replaces one that died."""
        with self._lock:
            if self._present is not None and not self._present.alive:
                self._present.close()
                self._present = None
            if self._present is None:
                self._present = self._start()
            return self._present

    def close(self) -> None:
        """End the fork server with all its children."""
        with self._lock:
            if self._present is not None:
                self._present.close()
                self._present = None
