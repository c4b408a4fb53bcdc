"""Polls on their way to the database."""

import threading
from datetime import datetime
from typing import Final

from tunefarm_schemas.edge.device import EdgePoll
from tunefarm_schemas.views.fleet import EdgeDeviceView
from tunefarm_services.store.fleet.polling_repository import PollingRepository, StoredPoll

SEEN_INTERVAL_S: Final = 60.0
"""A poll that says nothing new is stored at most once in this time."""
STORE_EVERY_S: Final = 5.0
MOST: Final = 1000
_FREE_STEP: Final = 1 << 24
"""Free space changes all the time; smaller steps are not news."""


class PollBatch:
    """Stores polls with news at once, and the others some seconds later, in one transaction for all of them.

    In the field nearly every poll says only that a device is alive, and a transaction costs more than the rest of its
    answer. A process that is killed loses the last seconds of those, and the next polls replace them.
    """

    def __init__(self, polling: PollingRepository) -> None:
        self._polling = polling
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, str], StoredPoll] = {}
        self._stored_s = float("-inf")

    def add(self, tenant: str, known: EdgeDeviceView, poll: EdgePoll, now_s: float) -> None:
        """Store a poll, now or later. ``known`` is the device as stored. Raises StoreUnavailable."""
        said = StoredPoll(tenant, known.edge_device_id, poll, now_s)
        if has_news(known, poll):
            self._polling.store([said])
            return
        if now_s - datetime.fromisoformat(known.seen_at).timestamp() < SEEN_INTERVAL_S:
            return
        with self._lock:
            self._waiting[tenant, known.edge_device_id] = said
            is_due = now_s - self._stored_s >= STORE_EVERY_S or len(self._waiting) >= MOST
            if is_due:
                self._stored_s = now_s
        if is_due:
            self.flush()

    def flush(self) -> None:
        """Store what waits. Raises StoreUnavailable; it is dropped then, and the devices poll again."""
        with self._lock:
            waiting, self._waiting = list(self._waiting.values()), {}
        self._polling.store(waiting)


def has_news(known: EdgeDeviceView, poll: EdgePoll) -> bool:
    """Whether a poll says more than that the device is alive."""
    old, new = known.facts, poll.facts
    unlike = {"free_bytes", "cpu_features"}
    return (
        (known.running, known.sequence) != (poll.running, poll.sequence)
        or set(old.cpu_features) != set(new.cpu_features)
        or abs(old.free_bytes - new.free_bytes) >= _FREE_STEP
        or old.model_dump(exclude=unlike) != new.model_dump(exclude=unlike)
    )
