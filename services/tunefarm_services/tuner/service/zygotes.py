"""The process that search children are forked from, replaced when it dies."""

import threading
from collections.abc import Callable

from tunefarm_sandbox.fork_server.fork_server import ForkServer


class Zygotes:
    """Holds one zygote at a time. May be used from several threads."""

    def __init__(self, start: Callable[[], ForkServer]) -> None:
        """``start`` starts one and returns while it still loads."""
        self._start = start
        self._lock = threading.Lock()
        self._present: ForkServer | None = None

    def present(self) -> ForkServer:
        """A live zygote: the present one, or a new one in the place of one that died."""
        with self._lock:
            if self._present is not None and not self._present.alive:
                self._present.close()
                self._present = None
            if self._present is None:
                self._present = self._start()
            return self._present

    def close(self) -> None:
        """End it with all its children."""
        with self._lock:
            if self._present is not None:
                self._present.close()
                self._present = None
