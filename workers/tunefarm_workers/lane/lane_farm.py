"""What every farm in this process passes on to its lane, which works on a thread of its own."""

import time
from collections.abc import Collection, Sequence
from typing import Generic, Protocol, TypeVar

from tunefarm_sandbox.channel.measurement_outbox import MeasurementOutbox
from tunefarm_schemas.tuning.measurement import Dispatch, Measurement, MeasureTask
from tunefarm_workers.conversation.child_answer import OnWait, canceled
from tunefarm_workers.conversation.event_loop import EventLoop
from tunefarm_workers.conversation.farm_settings import FarmSettings
from tunefarm_workers.lane.farm_statistics import FarmStatistics
from tunefarm_workers.lane.open_task import OpenTask
from tunefarm_workers.lane.open_tasks import OpenTasks

_REFERENCE_POLL_S = 0.02


class FarmLane(Protocol):
    """A lane, called on the thread of its loop."""

    loop: EventLoop
    tasks: OpenTasks

    def open_task(self, order: MeasureTask) -> None:
        """Start an exploration."""

    def close_task(self, exploration_id: str) -> None:
        """End an exploration."""

    def submit(self, dispatch: Dispatch) -> None:
        """Queue one attempt."""

    def cancel_all(self) -> None:
        """End every attempt."""

    def cancel(self, dispatch_ids: Collection[str]) -> None:
        """End some attempts."""

    def suspects(self) -> list[Measurement]:
        """What was delivered since the device was last seen in order, while it is not. Called on any thread."""

    def trouble(self) -> str:
        """Why the device is in quarantine; empty while it is not. Called on any thread."""

    def close(self) -> None:
        """End every child."""


LaneT = TypeVar("LaneT", bound=FarmLane)


class LaneFarm(Generic[LaneT]):
    """Its methods are called from one thread. Subclasses make ``_lane``, and start its loop."""

    _lane: LaneT

    def __init__(self, settings: FarmSettings) -> None:
        self._settings = settings
        self._outbox = MeasurementOutbox()
        self.statistics = FarmStatistics()

    def open_task(self, task: MeasureTask) -> None:
        """Announce an exploration. Raises ``BadInput`` when its module cannot be read or is not for this device.

        Whether its results can be verified may show only while the first candidates are built: ``collect`` raises then.
        """
        self._lane.loop.ask(lambda: self._lane.open_task(task))

    def close_task(self, exploration_id: str) -> None:
        """Let an exploration go whose attempts have all ended, with the memory that its inputs take."""
        self._lane.loop.ask(lambda: self._lane.close_task(exploration_id))

    def submit(self, dispatch: Dispatch) -> None:
        """Queue one attempt; its measurement comes out of ``collect``, whatever happens to it."""
        self._lane.loop.post(lambda: self._lane.submit(dispatch))

    def set_incumbent(self, exploration_id: str, latency_s: float) -> None:
        """Tell the latency against which losers are stopped early."""
        self._lane.loop.post(lambda: self._lane.tasks[exploration_id].improve(latency_s))

    def collect(self, timeout_s: float | None) -> list[Measurement]:
        """Measurements that are ready; waits up to ``timeout_s`` for the first, for ever when None.

        Raises:
            BadInput: when a task turned out to be unverifiable.
        """
        return self._outbox.take(timeout_s, self._lane.loop.raise_crash)

    def acknowledge(self, measurements: Sequence[Measurement]) -> None:
        """Nothing is kept for a tuner in the same process: what it collected is its own."""

    def wakeup_fileno(self) -> int:
        """A descriptor that is readable when ``collect`` would return something."""
        return self._outbox.fileno()

    def cancel_all(self) -> None:
        """End all that is queued or running; each attempt comes back as canceled."""
        self._lane.loop.ask(self._lane.cancel_all)

    def cancel(self, dispatch_ids: Collection[str]) -> None:
        """End those attempts, queued or running; each comes back as canceled. Others go on."""
        wanted = frozenset(dispatch_ids)
        self._lane.loop.ask(lambda: self._lane.cancel(wanted))

    def suspects(self) -> list[Measurement]:
        """While the device is in quarantine: what was delivered since it was last seen in order, to be repeated."""
        self._lane.loop.raise_crash()
        return self._lane.suspects()

    def trouble(self) -> str:
        """Why the device is in quarantine, for people; empty while it is not."""
        self._lane.loop.raise_crash()
        return self._lane.trouble()

    def room(self) -> int:
        """How many attempts it wants queued or running at once, to be kept busy."""
        return 3 * self._settings.build_lanes + 4

    def _judging_task(self, exploration_id: str, sets: int, on_wait: OnWait) -> OpenTask:
        """The task of an exploration, once it is known what is right on its first ``sets`` sets of inputs.

        Raises:
            BadInput: nothing of it can be verified.
            ChildFailed: ``on_wait`` said that it is not wanted any more.
        """
        while (task := self._lane.loop.ask(lambda: self._lane.tasks.judging(exploration_id, sets))) is None:
            if not on_wait():
                raise canceled()
            time.sleep(_REFERENCE_POLL_S)
        return task

    @property
    def _is_closed(self) -> bool:
        return self._outbox.fileno() < 0

    def close(self) -> None:
        """End every child and the lane's thread; harmless when repeated."""
        if self._is_closed:
            return
        self._lane.loop.close()
        self._lane.close()
        self._outbox.close()
