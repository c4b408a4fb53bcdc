"""A farm without a device whose candidates end when the test decides."""

import heapq
import os
import time

from benchmarks.farm.simulated_lane import SimulatedFarm, simulated_device
from tunefarm_schemas.tuning.measurement import Dispatch, Measurement

_NEVER_S = 1e6
_LOOK_S = 0.05
"""A lane that closes waits until its farm returns."""


class HeldFarm(SimulatedFarm):
    def __init__(self, room: int) -> None:
        super().__init__(simulated_device(), _NEVER_S, room)
        self.begun: list[str] = []
        self._failure: Exception | None = None

    def submit(self, dispatch: Dispatch) -> None:
        super().submit(dispatch)
        self.begun.append(dispatch.dispatch_id)

    def finish(self, dispatch_id: str) -> None:
        """End a candidate as measured."""
        now_s = time.monotonic()
        with self._lock:
            self._due = [(now_s if d.dispatch_id == dispatch_id else due_s, n, d) for due_s, n, d in self._due]
            heapq.heapify(self._due)
        os.eventfd_write(self._changed, 1)

    def break_down(self, failure: Exception) -> None:
        """Fail for good."""
        self._failure = failure
        os.eventfd_write(self._changed, 1)

    def collect(self, timeout_s: float | None) -> list[Measurement]:
        del timeout_s
        found = super().collect(_LOOK_S)
        if self._failure is not None:
            raise self._failure
        return found
