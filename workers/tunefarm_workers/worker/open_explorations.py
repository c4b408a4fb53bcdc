"""Opens a lane's explorations as their candidates arrive."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from tunefarm_schemas.bad_input import BadInput
from tunefarm_workers.broker.blobs import Blobs
from tunefarm_workers.broker.task_blob import fetched_task
from tunefarm_workers.worker.device_farm import DeviceFarm

MAX_OPEN: Final = 12
"""Each keeps the inputs of its workload in memory."""
_SETTLE_S: Final = 30.0
_POLL_S: Final = 0.05


class OpenExplorations:
    """The open explorations and the tasks they were opened with. Closes the least recently used idle ones."""

    def __init__(self, farm: DeviceFarm, blobs: Blobs, in_use: Callable[[str], bool]) -> None:
        """``in_use`` tells whether an exploration has attempts under way."""
        self._farm = farm
        self._blobs = blobs
        self._in_use = in_use
        self._open: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def ensure(self, exploration_id: str, task_digest: str) -> None:
        """Open an exploration with this task, unless it is open.

        Raises:
            TaskNotThere: there is no such blob.
            BlobsUnavailable: the blob store does not answer.
            BadInput: the module cannot be measured.
        """
        with self._lock:
            if self._open.get(exploration_id) == task_digest:
                self._open.move_to_end(exploration_id)
                return
            task = fetched_task(self._blobs, task_digest, exploration_id)
            if exploration_id in self._open:
                self._close_settled(exploration_id)
            self._farm.open_task(task)
            self._open[exploration_id] = task_digest
            self._close_idle()

    def forget(self, exploration_id: str) -> None:
        """Close an unverifiable exploration, so that its next candidate opens it again."""
        with self._lock:
            if exploration_id in self._open and not self._in_use(exploration_id):
                del self._open[exploration_id]
                self._farm.close_task(exploration_id)

    def _close_settled(self, exploration_id: str) -> None:
        """Close an exploration that another job opened with other inputs; waits for its attempts."""
        deadline_s = time.monotonic() + _SETTLE_S
        while self._in_use(exploration_id) and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
        if self._in_use(exploration_id):
            problem = "another job measures it on this lane with other inputs."
            raise BadInput("inputs", problem, "Submit the job again when that one is finished.")
        del self._open[exploration_id]
        self._farm.close_task(exploration_id)

    def _close_idle(self) -> None:
        for exploration_id in list(self._open)[:-1]:
            if len(self._open) <= MAX_OPEN:
                return
            if not self._in_use(exploration_id):
                del self._open[exploration_id]
                self._farm.close_task(exploration_id)
