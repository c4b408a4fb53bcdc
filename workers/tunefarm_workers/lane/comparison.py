"""Schedules timed side by side in one child, followed by the lane."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from tunefarm_sandbox.channel.channel import Channel, ChannelClosed
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkFailed
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.device import PROTOCOLS
from tunefarm_schemas.tuning.measurement import Comparison, ComparisonOrder, Failed, Result, Timing
from tunefarm_workers.conversation.child_death import failure_of_death, was_killed
from tunefarm_workers.conversation.event_loop import ChildConversation
from tunefarm_workers.conversation.messages import ComparisonPlan, Compiled, Round, RoundOrder, from_comparison
from tunefarm_workers.correctness.element_type import size_in_bytes
from tunefarm_workers.correctness.inputs import INPUT_SETS
from tunefarm_workers.correctness.output_layout import OutputLayout
from tunefarm_workers.correctness.output_samples import OutputSamples
from tunefarm_workers.correctness.output_transfer import OutputIntake
from tunefarm_workers.lane.measurement_owner import MeasurementOwner
from tunefarm_workers.lane.open_task import OpenTask
from tunefarm_workers.threads.thread_watch import CoresOfThreads
from tunefarm_workers.timing.interleaved_timing import PATIENCE, contenders, suffice, timing_of

_MAX_KILLS = 2
"""How often a killed child is replaced before its current schedule fails."""


class ComparisonOwner(MeasurementOwner, Protocol):
    """The lane of a comparison."""

    def listen(self, conversation: ChildConversation) -> None:
        """Listen to the child of a comparison."""

    def forget(self, conversation: ChildConversation) -> None:
        """Stop listening to the child; idempotent."""

    def restore_threads(self, task: OpenTask) -> None:
        """Restore the threads of the processes that children of ``task`` are forked from."""


class _ComparisonRun:
    """The requests to one child and its answers so far. A lost child costs all of them."""

    def __init__(self, child: Child, entrants: list[int], layout: OutputLayout, drawn: OutputSamples) -> None:
        """The child compiles the schedules ``entrants`` in this order, and computes long ones at ``drawn`` only."""
        self.child = child
        self.entrants = entrants
        self.compiled = 0
        self.outputs = OutputIntake([layout] * INPUT_SETS * len(entrants))
        self.drawn = drawn
        self.leading: dict[int, int] = {}
        """Of schedules computed at samples only: the number of leading dimensions that a sample fixes."""
        self.errors: dict[int, float] = {}
        self.rounds: dict[int, list[tuple[float, ...]]] = {index: [] for index in entrants}
        self.requested: list[int] = []
        self.threads: CoresOfThreads = {}
        self.last_message_s = time.monotonic()
        self.spent_each_s = 0.0
        self.is_timed = False

    @property
    def is_compiling(self) -> bool:
        """Whether a schedule remains to be compiled or checked."""
        return self.compiled < len(self.entrants)

    def is_complete(self, reply: Round) -> bool:
        """Whether a round has samples of every schedule it was requested for."""
        return bool(self.requested) and len(reply.samples_s) == len(self.requested) and all(reply.samples_s)


class RunningComparison:
    """Compares schedules in one child.

    1. The child compiles the schedules in parallel, and runs each on all sets of inputs.
    2. It times them in rounds, with the device to itself. After the first rounds, clearly slower ones sit out.
    3. Once the reference is known, schedules with wrong outputs fail, and the comparison ends.

    If the child dies while it compiles, a new one compiles one schedule at a time: at its next death the current
    schedule is at fault, fails, and the others begin again. A killed child is replaced without fault.
    """

    def __init__(
        self,
        task: OpenTask,
        order: ComparisonOrder,
        owner: ComparisonOwner,
        limits: Limits,
        deadline_s: float,
        on_end: Callable[["RunningComparison", Comparison], None],
    ) -> None:
        """``deadline_s`` bounds the wait for each message. The comparison begins with ``start``."""
        self.task = task
        self._order = order
        self._owner = owner
        self._device_arbiter = owner.device_arbiter
        self._limits = limits
        self._deadline_s = deadline_s
        self._on_end = on_end
        self._results: dict[int, Result] = {}
        self._kills = 0
        self._was_disturbed = False
        self._side_by_side = True
        self._started: _ComparisonRun | None = None
        """None while there is no child."""

    @property
    def _run(self) -> _ComparisonRun:
        assert self._started is not None, "only a running child sends messages"
        return self._started

    @property
    def child(self) -> Child:
        """The child that compiles and times."""
        return self._run.child

    @property
    def computes(self) -> bool:
        """Whether its child, present or next, uses the processor without owning the device."""
        return self._started is None or self._started.is_compiling

    def start(self) -> None:
        """Fork a child for the schedules without a result; end if there are none."""
        if len(self._results) == len(self._order.traces):
            self._end()
            return
        try:
            self._started = self._forked()
        except ForkFailed as error:
            if self.task.server.alive:
                self.fail(FailureReason.DEVICE_LOST, f"No child could be forked: {error}")
            else:
                self._owner.tasks.replace_process(self.task)
            return
        self._owner.listen(self)

    def begin_again(self, task: OpenTask) -> None:
        """Compile and time all schedules that have not failed again, in children of the process of ``task``."""
        self._device_arbiter.release(self)
        self._drop_child()
        self.task = task
        self.start()

    def fail(self, reason: FailureReason, message: str) -> None:
        """End with the present results, and with a failure for the other schedules."""
        failed = Failed(failure=TrialFailure(reason=reason, message=message[:4000]))
        for index in range(len(self._order.traces)):
            self._results.setdefault(index, failed)
        self._end()

    @property
    def channel(self) -> Channel:
        """The child's channel."""
        return self.child.channel

    def received(self, message: bytes) -> None:
        """Handle a compiled schedule or a round of samples."""
        run = self._run
        silence_s = time.monotonic() - run.last_message_s
        run.last_message_s += silence_s
        try:
            if run.outputs.take(message):
                return
            reply = from_comparison.validate_json(message)
        except ValueError:
            self._fail_entrant(TrialFailure(reason=FailureReason.CRASH, message="The child sent an invalid message."))
            return
        if isinstance(reply, Compiled) and run.is_compiling:
            self._take_compiled(reply)
        elif isinstance(reply, Round) and run.is_complete(reply):
            fault = self._owner.thread_watch.fault(run.child.pid, self.task.order.num_cores, run.threads)
            if fault:
                self._disturbed(fault)
                return
            run.spent_each_s += silence_s / len(run.requested)
            self._take_round(reply)
        else:
            self._fail_entrant(
                TrialFailure(reason=FailureReason.CRASH, message=f"The child sent an unexpected {reply.kind!r}.")
            )

    def ended(self) -> None:
        """Blame the child's current schedule for its death, unless the child or its process was killed."""
        if not self.task.server.alive:
            self._owner.tasks.replace_process(self.task)
            return
        death = self.child.exit(timeout_s=1.0)
        if was_killed(death) and self._kills < _MAX_KILLS:
            self._kills += 1
            self.begin_again(self.task)
            return
        doing = "building or running" if self._run.is_compiling else "running"
        self._fail_entrant(failure_of_death(death, doing, self.child.output()))

    def go(self) -> None:
        """Time one round: the comparison owns the device now."""
        run = self._run
        run.last_message_s = time.monotonic()
        run.threads = self._owner.thread_watch.look(run.child.pid)
        run.child.resume()
        with suppress(ChannelClosed, TimeoutError):
            places = tuple(run.entrants.index(index) for index in run.requested)
            order = RoundOrder(places=places, tries=self.task.sleep_burst_budget.tries)
            run.child.channel.send(order.model_dump_json().encode(), timeout_s=1.0)

    def check_deadline(self, now_s: float) -> None:
        """Fail the current schedule if the child is silent for too long."""
        run = self._started
        if run is not None and now_s - run.last_message_s > self._deadline_s and not run.is_timed:
            message = f"It did not answer within {self._deadline_s:.0f} s."
            self._fail_entrant(TrialFailure(reason=FailureReason.RUN_TIMEOUT, message=message))

    def conclude(self) -> None:
        """End with the results, once all is timed and the reference is known."""
        run = self._started
        if run is None or not run.is_timed or not self.task.referee.knows(INPUT_SETS):
            return
        self._judge(run)
        if self._started is not run:  # judging reopened the task, which restarted the comparison
            return
        if max(run.errors.values(), default=0.0) > 1.0 and not self.task.is_confirmed:
            self._owner.tasks.confirm(self.task)
            return
        for index in run.entrants:
            if index not in self._results:
                error = run.errors[index]
                timing = timing_of(run.rounds[index], is_estimate=index in run.leading)
                self._results[index] = self._plausible(timing) if error <= 1.0 else self.task.wrong_result(error)
        self._end()

    def _forked(self) -> _ComparisonRun:
        """Raises ``ForkFailed``."""
        entrants = [index for index in range(len(self._order.traces)) if index not in self._results]
        # The limits are for one schedule; each further one has tensors of its own.
        tensors_bytes = sum(size_in_bytes(argument.tensor) for argument in self.task.arguments)
        limits = self._limits.with_more_memory((len(entrants) - 1) * tensors_bytes)
        # Each may compute on all threads until the deadline of its message, twice, and while it is timed.
        each_s = 2 * self._deadline_s + PATIENCE * self._order.seconds_each
        limits = limits.with_processor_time(self.task.order.num_cores * each_s * len(entrants))
        traces = [self._order.traces[index] for index in entrants]
        drawn = OutputSamples.drawn(self.task.layout)
        plan = ComparisonPlan(
            traces=tuple(None if trace is None else trace.text for trace in traces),
            cold_cache=PROTOCOLS[self.task.order.protocol_id].cold_cache,
            side_by_side=self._side_by_side,
            samples=drawn.elements,
        )
        child = self.task.server.fork(
            "tunefarm_workers.child.comparison_child:run",
            plan.model_dump_json().encode(),
            limits=limits,
            confinement=Confinement.strict(may_pin_threads=True),
        )
        return _ComparisonRun(child, entrants, self.task.layout, drawn)

    def _take_compiled(self, reply: Compiled) -> None:
        run = self._run
        place, index = run.compiled, run.entrants[run.compiled]
        run.compiled += 1
        if reply.failure is not None:
            failure = TrialFailure(reason=reply.failure.reason, message=reply.failure.message[:4000])
            self._results[index] = Failed(failure=failure)
        elif not all(run.outputs.holds(slot) for slot, _ in self._slots(place)):
            failure = TrialFailure(reason=FailureReason.CRASH, message="The child did not send all of its outputs.")
            self._results[index] = Failed(failure=failure)
        if reply.leading is not None and self._order.traces[index] is None:
            run.leading[index] = reply.leading
        if reply.failure is None and self.task.referee.knows(INPUT_SETS):
            self._judge(run)  # now, which frees the memory of the outputs
        if self._started is run and not run.is_compiling:
            self._next_round()

    @staticmethod
    def _slots(place: int) -> list[tuple[int, int]]:
        """The slots of a schedule's outputs, each with the number of its set of inputs."""
        return [(place * INPUT_SETS + number, number) for number in range(INPUT_SETS)]

    def _judge(self, run: _ComparisonRun) -> None:
        """Compare the outputs that arrived, and drop them. This may restart the comparison, with other inputs."""
        for place, index in enumerate(run.entrants[: run.compiled]):
            if index in self._results or index in run.errors:
                continue
            slots = self._slots(place)
            own = [(number, run.outputs.arrays(slot)) for slot, number in slots]
            leading = run.leading.get(index)
            run.errors[index] = (
                self.task.referee.judge(own)
                if leading is None
                else self.task.referee.judge_samples(run.drawn, leading, own)
            )
            for slot, _ in slots:
                run.outputs.drop(slot)

    def _disturbed(self, fault: str) -> None:
        """Begin again after another process interfered; fail the second time."""
        if self._was_disturbed:
            self.fail(FailureReason.DEVICE_LOST, f"Another process interferes with what is timed: {fault}.")
        else:
            self._was_disturbed = True
            self.begin_again(self.task)
        self._owner.restore_threads(self.task)

    def _take_round(self, reply: Round) -> None:
        run = self._run
        for index, samples in zip(run.requested, reply.samples_s, strict=True):
            run.rounds[index].append(samples)
        run.child.stop()  # its spinning threads would disturb the next measurement
        self._device_arbiter.release(self)
        self._next_round()

    def _next_round(self) -> None:
        run = self._run
        alive = {index: rounds for index, rounds in run.rounds.items() if index not in self._results}
        run.requested = contenders(alive)
        if not alive or suffice((alive[index] for index in run.requested), run.spent_each_s, self._order.seconds_each):
            run.is_timed = True
            self.conclude()
        else:
            run.child.stop()
            self._device_arbiter.claim(self, len(run.requested) * self.task.turn_s)

    def _fail_entrant(self, failure: TrialFailure) -> None:
        """Fail the schedule that ended the child, or all of them while they are timed, and begin again."""
        run = self._run
        if run.is_compiling and self._side_by_side:
            self._side_by_side = False  # one at a time, to find the schedule at fault
            self.begin_again(self.task)
            return
        self._device_arbiter.release(self)
        if run.is_compiling:
            self._results[run.entrants[run.compiled]] = Failed(failure=failure)
        else:
            for index in run.entrants:
                self._results.setdefault(index, Failed(failure=failure))
        self._drop_child()
        self.start()

    def _plausible(self, timing: Timing) -> Timing | Failed:
        """``timing``, or a failure if no kernel of this function can be as fast."""
        implausible = self.task.implausible(timing.latency_s)
        if implausible is None:
            return timing
        self._owner.check_device()
        return Failed(failure=implausible)

    def _end(self) -> None:
        self._device_arbiter.release(self)
        self._drop_child()
        results = tuple(self._results[index] for index in range(len(self._order.traces)))
        self._on_end(self, Comparison(results=results))

    def _drop_child(self) -> None:
        self._owner.forget(self)
        if self._started is not None:
            self._started.child.close()
        self._started = None
