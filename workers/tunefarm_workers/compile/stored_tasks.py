"""Stores tasks in the blob store for compile lanes."""

from collections import deque
from typing import Final

from tunefarm_schemas.tuning.measurement import MeasureTask
from tunefarm_workers.broker.blobs import Blobs

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
