"""A farm of this host's processor, for a tuner in the same process."""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.failure import TrialFailure
from tunefarm_schemas.farm.lane import ReferenceCheck
from tunefarm_schemas.host_cores import usable_processors
from tunefarm_schemas.tuning.device import Device, Environment
from tunefarm_schemas.tuning.measurement import (
    Comparison,
    ComparisonOrder,
    ExportOrder,
    ExportResult,
    Failed,
    Measurement,
)
from tunefarm_workers.artifact.export import Exporter
from tunefarm_workers.conversation.child_answer import ChildFailed, OnWait
from tunefarm_workers.conversation.farm_settings import FarmSettings
from tunefarm_workers.correctness.tolerance import Array
from tunefarm_workers.device.cpu_identity import own_processor
from tunefarm_workers.device.device_watch import DeviceWatch
from tunefarm_workers.device.environment import present_environment
from tunefarm_workers.lane.lane_farm import LaneFarm
from tunefarm_workers.lane.open_task import OpenTask
from tunefarm_workers.lane.processor_lane import ProcessorLane
from tunefarm_workers.peaks.peak_measurement import with_peaks
from tunefarm_workers.threads.shared_cache_wait import SharedCacheWait
from tunefarm_workers.threads.thread_cores import cores_for
from tunefarm_workers.timing.device_turn import while_device_is_held
from tunefarm_workers.timing.host_turn import HostTurn
from tunefarm_workers.timing.neighbours import Neighbours

_ENVIRONMENT_FRESH_S = 1.0
_IDENTIFY_S = 10.0


class LocalFarm(LaneFarm[ProcessorLane]):
    """Measures candidates on this host. Methods are called from one thread; the lane runs on another."""

    def __init__(
        self,
        fork_server: ForkServer,
        *,
        scratch: Path,
        known: Device | None = None,
        bystanders: Callable[[], Sequence[Child]] = tuple,
        settings: FarmSettings | None = None,
    ) -> None:
        """Identify the device and start the lane.

        ``scratch`` is a folder for this farm alone. ``known`` is the device as identified by an earlier run, whose
        class it keeps. ``bystanders`` returns children of others, such as a search, to hold still during timing.
        """
        super().__init__(settings or FarmSettings())
        self._fork_server = fork_server
        self._scratch = scratch
        self._environment = Environment()
        self._environment_s = -_ENVIRONMENT_FRESH_S
        self._watch = watch = DeviceWatch(
            fork_server, self._settings.child_limits(), usable_processors(), self._settings.drift_check_s
        )
        self.code_generator = watch.code_generator
        self._turn = HostTurn(os.sched_getaffinity(0))
        with self._turn.held(_IDENTIFY_S):
            self.device = with_peaks(
                watch.identify(known), fork_server, self._settings.child_limits(), usable_processors()
            )
        self.processor = own_processor()
        self._shared_cache_wait = SharedCacheWait(cores_for(2))
        self.neighbours = Neighbours(lambda child: self.lane.loop.ask(lambda: self.lane.device_arbiter.hold(child)))
        self._bystanders = bystanders
        self.lane = ProcessorLane(
            fork_server, self._settings, self._others, self._deliver, self._outbox.put, self._outbox.wake, self._turn
        )
        self._turn.on_turn = self.lane.loop.wake
        self.lane.loop.start()
        self.lane.loop.ask(lambda: self.lane.watch(watch))

    def compare(self, order: ComparisonOrder, on_wait: OnWait = lambda: True) -> Comparison:
        """Time schedules side by side.

        ``on_wait`` is called on this thread a few times a second; False cancels the comparison.
        """
        answer: Future[Comparison] = Future()
        comparison = self.lane.loop.ask(lambda: self.lane.compare(order, answer.set_result))

        def look() -> None:
            if not on_wait():
                self.lane.loop.ask(lambda: self.lane.cancel_comparison(comparison))

        return self.lane.loop.wait_for(answer, look)

    def export(self, order: ExportOrder, on_wait: OnWait = lambda: True) -> ExportResult:
        """Compile a schedule to a library, check it, and time it in fresh processes. ``on_wait`` as in ``compare``."""
        try:  # the first reference output decides the distribution of the inputs
            task = self._task_with_reference(order.exploration_id, 1, on_wait)
        except ChildFailed as failed:
            return Failed(failure=failed.failure)
        exporter = Exporter(
            self._fork_server,
            self._scratch,
            self._settings.child_limits(),
            lambda action: while_device_is_held(self.lane, action, on_wait),
            lambda outputs: self._error_of(order.exploration_id, outputs, on_wait),
            lambda latency_s: self.implausible(task, latency_s),
            self._shared_cache_wait,
            self.neighbours,
            on_wait,
        )
        return exporter.export(order, task.task_order(), task.arguments, task.order.protocol_id)

    def implausible(self, task: OpenTask, latency_s: float) -> TrialFailure | None:
        """Why a latency cannot be true, if so; the device is checked then."""
        implausible = task.implausible(latency_s)
        if implausible is not None:
            self.lane.loop.ask(self.lane.check_device)
        return implausible

    @property
    def last_check(self) -> ReferenceCheck | None:
        """The latest check of the device; None before the first."""
        return self._watch.last_check

    @property
    def waits_for(self) -> str:
        """What the device waits for, as text to show; empty if nothing."""
        if self.lane.holds_back():
            return f"the device to recover: {self.lane.trouble()}"
        return "another process that measures on this host" if self._turn.waits else ""

    def close(self) -> None:
        """End every child and the lane's thread, and take no more turns. Idempotent."""
        if not self._is_closed:
            self.lane.loop.post(self._turn.close)  # on the thread that takes turns
        super().close()
        self._turn.close()

    def _others(self) -> tuple[Child, ...]:
        """Children outside the lane that may be held still."""
        return (*self._bystanders(), *self.neighbours.children)

    def _error_of(self, exploration_id: str, outputs: list[Array], on_wait: OnWait) -> float:
        task = self._task_with_reference(exploration_id, 1, on_wait)
        return self.lane.loop.ask(lambda: task.referee.error_of(outputs))

    def _deliver(self, measurement: Measurement) -> None:
        now_s = time.monotonic()
        if now_s - self._environment_s > _ENVIRONMENT_FRESH_S:
            self._environment, self._environment_s = present_environment(), now_s
        self.statistics = self.statistics.with_measurement(measurement, self.lane.device_arbiter.still_s)
        self._outbox.put(
            measurement.model_copy(
                update={"device_fingerprint": self.device.fingerprint, "environment": self._environment}
            )
        )
