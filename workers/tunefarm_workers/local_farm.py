"""One machine's device, offered to a tuner in the same process."""

import os
import select
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from tunefarm_sandbox.child import Child
from tunefarm_sandbox.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.measurement import Comparison, ComparisonOrder, Dispatch, Measurement, MeasureTask
from tunefarm_workers.farm_settings import FarmSettings
from tunefarm_workers.lane import Lane


class LocalFarm:
    """Measures candidates on this machine. Its methods are called from one thread; a lane works in another."""

    def __init__(
        self,
        zygote: ForkServer,
        *,
        scratch: Path,
        bystanders: Callable[[], Sequence[Child]] = tuple,
        settings: FarmSettings | None = None,
    ) -> None:
        """``scratch`` is a folder for this farm alone; ``bystanders`` gives children to be held still while timing."""
        self._settings = settings or FarmSettings()
        self._scratch = scratch
        self._outbox: deque[Measurement | BadInput] = deque()
        self._outbox_lock = threading.Lock()
        self._ready = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._lane = Lane(zygote, self._settings, bystanders, self._put, self._put)
        self._lane.loop.start()

    def open_task(self, task: MeasureTask) -> None:
        """Announce an exploration. Raises ``BadInput`` when its module cannot be read.

        Whether its results can be verified shows while the first candidates are built already: ``collect`` raises
        then.
        """
        self._lane.loop.ask(lambda: self._lane.open_task(task))

    def submit(self, dispatch: Dispatch) -> None:
        """Queue one attempt; its measurement comes out of ``collect``, whatever happens to it."""
        self._lane.loop.post(lambda: self._lane.submit(dispatch))

    def set_incumbent(self, exploration_id: str, latency_s: float) -> None:
        """Tell the latency against which losers are stopped early."""
        self._lane.loop.post(lambda: self._lane.task(exploration_id).improve(latency_s))

    def collect(self, timeout_s: float | None) -> list[Measurement]:
        """Measurements that are ready; waits up to ``timeout_s`` for the first, for ever when None.

        Raises:
            BadInput: when a task turned out to be unverifiable.
        """
        waiting = select.poll()
        waiting.register(self._ready, select.POLLIN)
        if not waiting.poll(None if timeout_s is None else timeout_s * 1000):
            return []
        with self._outbox_lock:
            os.eventfd_read(self._ready)
            ready = list(self._outbox)
            self._outbox.clear()
        for entry in ready:
            if isinstance(entry, BadInput):
                raise entry
        return [entry for entry in ready if isinstance(entry, Measurement)]

    def wakeup_fileno(self) -> int:
        """A descriptor that is readable when ``collect`` would return something."""
        return self._ready

    def cancel_all(self) -> None:
        """End all that is queued or running; each attempt comes back as canceled."""
        self._lane.loop.ask(self._lane.cancel_all)

    def compare(self, order: ComparisonOrder) -> Comparison:
        """Time schedules side by side on a quiet device."""
        answer: Future[Comparison] = Future()
        self._lane.loop.ask(lambda: self._lane.compare(order, answer.set_result))
        return answer.result()

    def room(self) -> int:
        """How many attempts it wants queued or running at once, to be kept busy."""
        return 3 * self._settings.build_lanes + 4

    def close(self) -> None:
        """End every child and the lane's thread; harmless when repeated."""
        if self._ready < 0:
            return
        self._lane.loop.close()
        self._lane.close()
        os.close(self._ready)
        self._ready = -1

    def _put(self, entry: Measurement | BadInput) -> None:
        with self._outbox_lock:
            self._outbox.append(entry)
            os.eventfd_write(self._ready, 1)
