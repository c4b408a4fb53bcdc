"""The tasks whose candidates a lane compiles, fetched when the first of them arrives."""

import threading
from collections import OrderedDict
from typing import Final

from pydantic import ValidationError

from tunefarm_schemas.measurement import MeasureTask
from tunefarm_workers.celery_worker.blobs import Blobs
from tunefarm_workers.celery_worker.open_explorations import TaskNotThere

MOST_KNOWN: Final = 12


class KnownTasks:
    """By digest, so one never changes. The least recently used are forgotten. May be used from several threads."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._known: OrderedDict[str, MeasureTask] = OrderedDict()
        self._lock = threading.Lock()

    def task(self, task_digest: str) -> MeasureTask:
        """The task of that digest. Raises TaskNotThere, BlobsUnavailable."""
        with self._lock:
            if task_digest in self._known:
                self._known.move_to_end(task_digest)
                return self._known[task_digest]
        fetched = self._fetched(task_digest)
        with self._lock:
            self._known[task_digest] = fetched
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        return fetched

    def _fetched(self, task_digest: str) -> MeasureTask:
        content = self._blobs.get(task_digest)
        if content is None:
            raise TaskNotThere(task_digest)
        try:
            return MeasureTask.model_validate_json(content)
        except ValidationError as error:
            raise TaskNotThere(f"{task_digest} is no task: {error}") from error
