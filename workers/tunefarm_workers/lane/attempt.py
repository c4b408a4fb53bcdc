"""One attempt to measure one candidate, followed by its lane."""

import time
from contextlib import suppress
from enum import Enum
from typing import Protocol

from tunefarm_sandbox.channel.channel import Channel, ChannelClosed
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.device import PROTOCOLS
from tunefarm_schemas.tuning.measurement import Dispatch, Failed, Measurement, Purpose, Stages, Stopped, Timing
from tunefarm_workers.conversation.child_death import failure_of_death
from tunefarm_workers.conversation.messages import Broken, Built, CandidateOrder, Checked, Go, Ran, Warm, from_candidate
from tunefarm_workers.correctness.inputs import INPUT_SETS
from tunefarm_workers.correctness.output_layout import SLOTS
from tunefarm_workers.correctness.output_transfer import OutputIntake
from tunefarm_workers.lane.measurement_owner import MeasurementOwner
from tunefarm_workers.lane.open_task import OpenTask
from tunefarm_workers.threads.thread_watch import CoresOfThreads
from tunefarm_workers.timing.processor_clock import processor_time_s, queueing_time_s

_LOAD_SHARE = 0.25
"""A candidate that waits for a core for more than this share of its time is timed out by load on the host."""
_MAX_QUEUEING = 3
"""Waiting for a core extends a build's deadline to at most this multiple."""


class Stage(Enum):
    """The stage of an attempt. A device session runs its own warm-up and checks within RUNNING."""

    BUILDING = "building"
    WARMING = "running for the first time"
    WAITING = "waiting for a quiet device"
    RUNNING = "running"
    CHECKING = "running on further inputs"
    JUDGED_LATER = "waiting for the reference"
    OVER = "over"


class AttemptOwner(MeasurementOwner, Protocol):
    """The lane of an attempt."""

    def is_loaded(self) -> bool:
        """Whether other processes may be the cause of a time-out."""

    def disturbed(self, attempt: "Attempt", fault: str) -> None:
        """Discard the timing of ``attempt``, with which another process interfered, and begin it again or fail it."""

    def finished(self, attempt: "Attempt", measurement: Measurement) -> None:
        """Deliver the result of ``attempt``, which is over."""


class Attempt:
    """Measures one candidate in a child of its own.

    1. The child builds the candidate (BUILDING) and calls it once (WARMING), beside other builds.
    2. It stops and waits for exclusive use of the device (WAITING).
    3. It is timed alone (RUNNING).
    4. A candidate that may be the fastest runs on further inputs (CHECKING), with the device free for others.
    5. Its outputs are compared with the reference, as soon as that is computed (JUDGED_LATER).
    """

    def __init__(self, owner: AttemptOwner, task: OpenTask, dispatch: Dispatch, limits: Limits) -> None:
        """Fork the child. Raises ``ForkFailed``."""
        self.task = task
        self.dispatch = dispatch
        self.stage = Stage.BUILDING
        self._owner = owner
        self._outputs = OutputIntake([task.layout] * SLOTS)
        self._forked_s = time.monotonic()
        self._still_before_s = owner.device_arbiter.still_until_now_s()
        self._entered_stage_s = self._forked_s
        self._queueing_before_s = 0.0
        self._used_before_s = 0.0
        self._stages = Stages()
        self._ran: Ran | None = None
        self._threads: CoresOfThreads = {}
        self._is_disposed = False
        self.child: Child = self._fork(limits)

    @property
    def is_thorough(self) -> bool:
        """Whether the whole protocol is run, even for a candidate slower than the incumbent."""
        return self.dispatch.purpose is not Purpose.SEARCH

    @property
    def computes(self) -> bool:
        """Whether its child uses the processor without owning the device."""
        return self.stage in {Stage.BUILDING, Stage.WARMING, Stage.CHECKING}

    @property
    def channel(self) -> Channel:
        """The child's channel."""
        return self.child.channel

    def received(self, message: bytes) -> None:
        """Handle a message of the child."""
        try:
            if self._outputs.take(message):
                return
            reply = from_candidate.validate_json(message)
        except ValueError:
            self.fail(FailureReason.CRASH, "The child sent an invalid message.")
            return
        if isinstance(reply, Built) and self.stage is Stage.BUILDING:
            self._built(reply.build_s)
            self._enter(Stage.WARMING)
        elif isinstance(reply, Warm) and self.stage is Stage.WARMING:
            self._enter(Stage.WAITING)
            # TVM's pool threads spin for 0.1 s after a call, on cores where others build or are timed.
            self.child.stop()
            self._owner.device_arbiter.claim(self, self.task.turn_s)
        elif isinstance(reply, Ran) and self.stage is (Stage.WARMING if reply.hopeless else Stage.RUNNING):
            self._timed(reply)
        elif isinstance(reply, Checked) and self.stage is Stage.CHECKING:
            self._enter(Stage.JUDGED_LATER)
            self.judge()
        elif isinstance(reply, Broken):
            self.fail(reply.reason, reply.message)
        else:
            self.fail(FailureReason.CRASH, f"The child sent {reply.kind!r} while it was {self.stage.value}.")

    def ended(self) -> None:
        """Fail the attempt unless its child had sent everything; replace the task's process if that died."""
        if self.stage in {Stage.OVER, Stage.JUDGED_LATER}:
            return
        if not self.task.server.alive:
            self._owner.tasks.replace_process(self.task)
            return
        death = self.child.exit(timeout_s=1.0)
        self._result(Failed(failure=failure_of_death(death, self.stage.value, self.child.output())))

    def go(self) -> None:
        """Run the timed calls: the attempt owns the device now."""
        now_s = time.monotonic()
        self._stages = self._stages.model_copy(update={"wait_s": now_s - self._entered_stage_s})
        self._enter(Stage.RUNNING)
        self._threads = self._owner.thread_watch.look(self.child.pid)
        self.child.resume()
        with suppress(ChannelClosed, TimeoutError):
            order = Go(incumbent_s=self.task.incumbent_s, tries=self.task.sleep_burst_budget.tries)
            self.child.channel.send(order.model_dump_json().encode(), timeout_s=1.0)

    def judge(self) -> None:
        """Compare the outputs, once the reference is known."""
        ran = self._ran
        if self.stage is not Stage.JUDGED_LATER or ran is None:
            return
        sets = INPUT_SETS if ran.checks_follow else 1
        if not self.task.referee.knows(sets):
            return
        error = self.task.judge(self._outputs, sets)
        if error is None:
            self.fail(FailureReason.CRASH, "The child did not send all of its outputs.")
            return
        if self._is_disposed:  # judging made the referee doubt: the task was reopened and this attempt queued again
            return
        if error > 1.0 and not self.task.is_confirmed:
            self._owner.tasks.confirm(self.task)
            return
        result = ran.result if error <= 1.0 else self.task.wrong_result(error)
        self._result(result, worst_error=min(error, 1e300), inputs_checked=sets)

    def fail(self, reason: FailureReason, message: str, *, under_load: bool | None = None) -> None:
        """End the attempt. ``under_load``: whether other work may be the cause; None asks for the host's load."""
        loaded = self._owner.is_loaded() if under_load is None else under_load
        failure = TrialFailure(reason=reason, message=message[:4000], under_load=loaded)
        self._result(Failed(failure=failure))

    def check_deadline(self, now_s: float) -> None:
        """End the attempt if its stage took too long; time for which others held it still does not count."""
        still_s = self._owner.device_arbiter.still_until_now_s() - self._still_before_s
        if self.stage is Stage.RUNNING:  # the others are held still for it
            still_s = 0.0
        elapsed_s = now_s - self._entered_stage_s - still_s
        if self.stage is Stage.BUILDING:
            self._check_build(elapsed_s)
        elif self.stage in {Stage.WARMING, Stage.RUNNING, Stage.CHECKING}:
            self._check_run(elapsed_s)

    def dispose(self) -> None:
        """End the child."""
        self._is_disposed = True
        self.child.close()

    def _fork(self, limits: Limits) -> Child:
        return self.task.server.fork(
            "tunefarm_workers.child.candidate:run",
            self._order().model_dump_json().encode(),
            limits=limits.with_processor_time(
                self.task.deadlines.lifetime_cpu_s(self.task.order.num_cores, INPUT_SETS)
            ),
            confinement=Confinement.strict(may_pin_threads=True),
        )

    def _check_run(self, elapsed_s: float) -> None:
        """Apply the run deadline to time on a core, and five times as much to time by the clock."""
        deadlines = self.task.deadlines
        input_sets = INPUT_SETS - 1 if self.stage is Stage.CHECKING else 0
        limit_s = deadlines.run_s(self.task.incumbent_s, input_sets)
        if elapsed_s <= limit_s:
            return
        queueing_s = queueing_time_s(self.child.pid) - self._queueing_before_s
        used_s = (processor_time_s(self.child.pid) or 0.0) - self._used_before_s
        # Its threads together used what it computed at least; the rest it slept, or waited for pages from a disk.
        is_proven = min(elapsed_s - queueing_s, used_s) > limit_s
        if is_proven or elapsed_s > deadlines.run_wall_s(self.task.incumbent_s, input_sets):
            message = (
                f"It was {self.stage.value} for more than {limit_s:.2f} s; it used {used_s:.2f} s of the processor "
                f"and waited {queueing_s:.2f} s for a core."
            )
            self.fail(
                FailureReason.RUN_TIMEOUT, message, under_load=not is_proven and self._is_loaded(elapsed_s, queueing_s)
            )

    def _is_loaded(self, elapsed_s: float, queueing_s: float) -> bool:
        return queueing_s > _LOAD_SHARE * elapsed_s or self._owner.is_loaded()

    def _check_build(self, wall_s: float) -> None:
        deadlines = self.task.deadlines
        used_s = processor_time_s(self.child.pid) or 0.0
        queueing_s = min(queueing_time_s(self.child.pid), (_MAX_QUEUEING - 1) * deadlines.build_wall_s)
        # An unread message means that the build is done and the time was used by the stage after it.
        if used_s > deadlines.build_cpu_s and not self.channel.has_news:
            message = f"Building used {used_s:.2f} s of the processor; {deadlines.build_cpu_s:.2f} s are allowed."
            is_proven = True
        elif wall_s - queueing_s > deadlines.build_wall_s:
            message = f"Building took {wall_s:.2f} s; {deadlines.build_wall_s:.2f} s are allowed."
            message += f" It waited {queueing_s:.2f} s for a core."
            is_proven = False
        else:
            return
        # Recorded although the build failed: the search learns to avoid such schedules.
        self._stages = Stages(build_s=max(used_s, wall_s))
        self.fail(FailureReason.BUILD_TIMEOUT, message, under_load=False if is_proven else None)

    def _timed(self, ran: Ran) -> None:
        if not ran.hopeless and not isinstance(ran.result, Failed):
            fault = self._owner.thread_watch.fault(self.child.pid, self.task.order.num_cores, self._threads)
            if fault:
                self._owner.disturbed(self, fault)
                return
        self._stages = self._stages.model_copy(update={"run_s": ran.run_s})
        self._ran = ran
        self.task.sleep_burst_budget.note(apart=ran.apart)
        implausible = self.task.implausible(ran.result.latency_s) if isinstance(ran.result, Timing) else None
        if implausible is not None:
            self._owner.check_device()
            self._result(Failed(failure=implausible))
        elif isinstance(ran.result, Failed):
            self._result(ran.result)
        elif ran.checks_follow:
            self._enter(Stage.CHECKING)
            self._owner.device_arbiter.hold(self.child)
            self._owner.device_arbiter.release(self)
        else:
            self._enter(Stage.JUDGED_LATER)
            self._leave_device()
            self.judge()

    def _leave_device(self) -> None:
        """Stop the child first: its spinning threads would disturb the next measurement."""
        self.child.stop()
        self._owner.device_arbiter.release(self)

    def _built(self, wall_build_s: float) -> None:
        """Record the build time, without the time for which the child was held still."""
        used_s = processor_time_s(self.child.pid)
        still_s = self._owner.device_arbiter.still_until_now_s() - self._still_before_s
        build_s = max(wall_build_s - still_s, min(used_s or 0.0, wall_build_s))
        self.task.deadlines.record_build(used_s if used_s is not None else build_s)
        wall_s = time.monotonic() - self._forked_s
        self._stages = Stages(start_s=max(wall_s - wall_build_s, 0.0), build_s=build_s)

    def _result(
        self, result: Timing | Stopped | Failed, *, worst_error: float | None = None, inputs_checked: int = 0
    ) -> None:
        if self.stage is Stage.OVER:
            return
        self._enter(Stage.OVER)
        self._leave_device()
        measurement = Measurement.answering(
            self.dispatch,
            result,
            self._stages,
            worst_error=worst_error,
            inputs_checked=inputs_checked,
            peak_memory_bytes=self._ran.peak_memory_bytes if self._ran is not None else 0,
            untuned_about_s=self.task.referee.untuned_about_s,
        )
        self._owner.finished(self, measurement)

    def _enter(self, stage: Stage) -> None:
        self.stage = stage
        self._entered_stage_s = time.monotonic()
        self._still_before_s = self._owner.device_arbiter.still_until_now_s()
        if stage in {Stage.WARMING, Stage.RUNNING, Stage.CHECKING}:
            self._queueing_before_s = queueing_time_s(self.child.pid)
            self._used_before_s = processor_time_s(self.child.pid) or 0.0

    def _order(self) -> CandidateOrder:
        return CandidateOrder(
            trace=self.dispatch.candidate.trace.text,
            incumbent_s=self.task.incumbent_s,
            thorough=self.is_thorough,
            cold_cache=PROTOCOLS[self.task.order.protocol_id].cold_cache,
        )
