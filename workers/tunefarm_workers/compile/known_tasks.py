"""Tasks whose candidates compile lanes build: the requester stores them, and lanes cache them."""

import threading
from collections import OrderedDict, deque
from typing import Final

from tunefarm_schemas.tuning.measurement import MeasureTask
from tunefarm_workers.broker.blobs import Blobs
from tunefarm_workers.broker.task_blob import fetched_task

MAX_KNOWN: Final = 12


class KnownTasks:
    """Fetches tasks by digest, and keeps the most recently used. Thread-safe."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._known: OrderedDict[tuple[str, str], MeasureTask] = OrderedDict()
        self._lock = threading.Lock()

    def task(self, task_digest: str, exploration_id: str) -> MeasureTask:
        """The task of an exploration. Raises TaskNotThere, BlobsUnavailable."""
        key = (task_digest, exploration_id)  # a cached digest must not grant access from another exploration
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        fetched = fetched_task(self._blobs, task_digest, exploration_id)
        with self._lock:
            self._known[key] = fetched
            while len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)
        return fetched


_REMEMBERED: Final = 16


class StoredTasks:
    """Stores each task once, as the same blob that the tuner stores. For one thread."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._stored: deque[tuple[MeasureTask, str]] = deque(maxlen=_REMEMBERED)

    def digest_of(self, task: MeasureTask, *, store_again: bool) -> str:
        """The digest of the task's blob; ``store_again`` if a lane may not have found it. Raises BlobsUnavailable."""
        # By identity: comparing two tasks is as much work as storing one.
        known = next((digest for other, digest in self._stored if other is task), None)
        if known is not None and not store_again:
            return known
        digest = self._blobs.put(task.model_dump_json().encode())
        if known is None:
            self._stored.append((task, digest))
        return digest
