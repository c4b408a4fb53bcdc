"""The common part of farms in this process: calls to a lane on another thread."""

import time
from collections.abc import Collection, Sequence
from typing import Generic, Protocol, TypeVar

from tunefarm_sandbox.channel.measurement_outbox import MeasurementOutbox
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.measurement import Dispatch, Measurement, MeasureTask
from tunefarm_workers.conversation.child_answer import OnWait, canceled
from tunefarm_workers.conversation.event_loop import EventLoop
from tunefarm_workers.conversation.farm_settings import FarmSettings
from tunefarm_workers.lane.open_task import OpenTask
from tunefarm_workers.lane.open_tasks import OpenTasks


class FarmStatistics(Frozen):
    """Totals over all attempts, in seconds. Builds run in parallel, so their total may exceed the elapsed time.

    ``still_s`` is the time for which builds and bystanders were held still.
    """

    attempts: int = 0
    start_s: float = 0.0
    build_s: float = 0.0
    wait_s: float = 0.0
    run_s: float = 0.0
    still_s: float = 0.0

    def with_measurement(self, measurement: Measurement, still_s: float) -> "FarmStatistics":
        """The totals including one more attempt."""
        stages = measurement.stages
        return FarmStatistics(
            attempts=self.attempts + 1,
            start_s=self.start_s + stages.start_s,
            build_s=self.build_s + stages.build_s,
            wait_s=self.wait_s + stages.wait_s,
            run_s=self.run_s + stages.run_s,
            still_s=still_s,
        )


_REFERENCE_POLL_S = 0.02


class FarmLane(Protocol):
    """A lane. Its methods are called on the thread of its loop."""

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
        """While the device is quarantined: the measurements since its last good check. Called on any thread."""

    def trouble(self) -> str:
        """Why the device is in quarantine; empty if it is not. Called on any thread."""

    def close(self) -> None:
        """End every child."""


LaneT = TypeVar("LaneT", bound=FarmLane)


class LaneFarm(Generic[LaneT]):
    """A farm with one lane. Methods are called from one thread. Subclasses create ``lane`` and start its loop.

    Attributes:
        lane: its methods are called on the thread of its loop.
    """

    lane: LaneT

    def __init__(self, settings: FarmSettings) -> None:
        self._settings = settings
        self._outbox = MeasurementOutbox()
        self.statistics = FarmStatistics()

    def open_task(self, task: MeasureTask) -> None:
        """Open an exploration. Raises ``BadInput`` if its module cannot be read or is not for this device.

        The reference is computed in the background: ``collect`` raises if the outputs cannot be verified.
        """
        self.lane.loop.ask(lambda: self.lane.open_task(task))

    def close_task(self, exploration_id: str) -> None:
        """Close an exploration whose attempts have all ended, and free its inputs."""
        self.lane.loop.ask(lambda: self.lane.close_task(exploration_id))

    def submit(self, dispatch: Dispatch) -> None:
        """Queue one attempt. ``collect`` returns its measurement, also if it fails or is canceled."""
        self.lane.loop.post(lambda: self.lane.submit(dispatch))

    def set_incumbent(self, exploration_id: str, latency_s: float) -> None:
        """Set the latency against which slower candidates are stopped early."""
        self.lane.loop.post(lambda: self.lane.tasks[exploration_id].improve(latency_s))

    def collect(self, timeout_s: float | None) -> list[Measurement]:
        """Measurements that are ready. Waits up to ``timeout_s`` for the first, without limit if None.

        Raises:
            BadInput: a task cannot be verified.
        """
        return self._outbox.take(timeout_s, self.lane.loop.raise_crash)

    def acknowledge(self, measurements: Sequence[Measurement]) -> None:
        """Do nothing: a tuner in the same process cannot lose what it collected."""

    def wakeup_fileno(self) -> int:
        """A descriptor that is readable when ``collect`` would return measurements."""
        return self._outbox.fileno()

    def cancel_all(self) -> None:
        """End all queued and running attempts; ``collect`` returns each as canceled."""
        self.lane.loop.ask(self.lane.cancel_all)

    def cancel(self, dispatch_ids: Collection[str]) -> None:
        """End the attempts of these dispatches; ``collect`` returns each as canceled."""
        wanted = frozenset(dispatch_ids)
        self.lane.loop.ask(lambda: self.lane.cancel(wanted))

    def suspects(self) -> list[Measurement]:
        """While the device is quarantined: the measurements since its last good check, to be repeated."""
        self.lane.loop.raise_crash()
        return self.lane.suspects()

    def trouble(self) -> str:
        """Why the device is in quarantine, as text to show; empty if it is not."""
        self.lane.loop.raise_crash()
        return self.lane.trouble()

    def has_lanes(self) -> bool:
        """Always: the lane is in this process."""
        return True

    def room(self) -> int:
        """How many attempts to keep queued or running so that the device is busy."""
        return 3 * self._settings.build_lanes + 4

    def _task_with_reference(self, exploration_id: str, sets: int, on_wait: OnWait) -> OpenTask:
        """Wait for the reference outputs of the first ``sets`` sets of inputs, and return the task.

        Raises:
            BadInput: its outputs cannot be verified.
            ChildFailed: ``on_wait`` canceled it.
        """
        while (task := self.lane.loop.ask(lambda: self.lane.tasks.with_reference(exploration_id, sets))) is None:
            if not on_wait():
                raise canceled()
            time.sleep(_REFERENCE_POLL_S)
        return task

    @property
    def _is_closed(self) -> bool:
        return self._outbox.fileno() < 0

    def close(self) -> None:
        """End every child and the lane's thread. Idempotent."""
        if self._is_closed:
            return
        self.lane.loop.close()
        self.lane.close()
        self._outbox.close()
