"""Schedules timed side by side, as the lane sees it."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from tunefarm_sandbox.channel.channel import Channel, ChannelClosed
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkFailed
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.device import PROTOCOLS
from tunefarm_schemas.tuning.measurement import Comparison, ComparisonOrder, Failed, Result, Timing
from tunefarm_workers.conversation.child_death import failure_of_death, was_killed
from tunefarm_workers.conversation.messages import ComparisonPlan, Compiled, Round, RoundOrder, from_comparison
from tunefarm_workers.correctness.element_type import size_in_bytes
from tunefarm_workers.correctness.inputs import INPUT_SETS
from tunefarm_workers.correctness.output_layout import OutputLayout
from tunefarm_workers.correctness.output_samples import OutputSamples
from tunefarm_workers.correctness.output_transfer import OutputIntake
from tunefarm_workers.lane.open_task import OpenTask
from tunefarm_workers.threads.thread_watch import CoresOfThreads
from tunefarm_workers.timing.rounds import PATIENCE, contenders, suffice, timing_of

if TYPE_CHECKING:
    from tunefarm_workers.lane.lane import ProcessorLane

_KILLS_BORNE = 2
"""How many times a child that somebody killed is replaced before the schedule it was busy with is blamed."""


class _ComparisonRun:
    """What one child was given, and what it has told so far. It is begun again where that child is lost."""

    def __init__(self, child: Child, entrants: list[int], layout: OutputLayout, drawn: OutputSamples) -> None:
        """``entrants`` are the schedules that it compiles, in this order; long ones at ``drawn``."""
        self.child = child
        self.entrants = entrants
        self.compiled = 0
        self.outputs = OutputIntake([layout] * INPUT_SETS * len(entrants))
        self.drawn = drawn
        self.leading: dict[int, int] = {}
        """Of schedules that were computed at samples only."""
        self.errors: dict[int, float] = {}
        self.rounds: dict[int, list[tuple[float, ...]]] = {index: [] for index in entrants}
        self.asked: list[int] = []
        self.threads: CoresOfThreads = {}
        self.heard_s = time.monotonic()
        self.spent_each_s = 0.0
        self.is_timed = False

    @property
    def is_compiling(self) -> bool:
        """Whether a schedule is still to be compiled or checked."""
        return self.compiled < len(self.entrants)

    def is_whole(self, said: Round) -> bool:
        """Whether a round has samples of every schedule that it was asked for."""
        return bool(self.asked) and len(said.samples_s) == len(self.asked) and all(said.samples_s)


class RunningComparison:
    """Compiles all schedules in one child, checks each, and has them timed in rounds on a quiet device.

    A schedule that takes the child down is found out, by compiling them one after the other, and left out.
    """

    def __init__(
        self,
        task: OpenTask,
        order: ComparisonOrder,
        owner: "ProcessorLane",
        limits: Limits,
        deadline_s: float,
        on_end: Callable[["RunningComparison", Comparison], None],
    ) -> None:
        """``deadline_s`` bounds the wait for each message. Nothing happens before ``start``."""
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
        assert self._started is not None, "nothing is listened to without a child"
        return self._started

    @property
    def child(self) -> Child:
        """The child that compiles and times."""
        return self._run.child

    @property
    def computes(self) -> bool:
        """Whether its child, present or to come, uses the processor outside of a quiet device."""
        return self._started is None or self._started.is_compiling

    def start(self) -> None:
        """Fork a child for the schedules of which nothing is known; end where there are none."""
        if len(self._results) == len(self._order.traces):
            self._end()
            return
        try:
            self._started = self._forked()
        except ForkFailed as error:
            if self.task.server.alive:
                self.fail(FailureReason.DEVICE_LOST, f"No child could be forked: {error}")
            else:
                self._owner.tasks.replace_host(self.task)
            return
        self._owner.listen(self)

    def begin_again(self, task: OpenTask) -> None:
        """Go on with another host: what has not failed is compiled and timed anew."""
        self._device_arbiter.release(self)
        self._drop_child()
        self.task = task
        self.start()

    def fail(self, reason: FailureReason, message: str) -> None:
        """End now with what is known, and with a failure for the rest."""
        failed = Failed(failure=TrialFailure(reason=reason, message=message[:4000]))
        for index in range(len(self._order.traces)):
            self._results.setdefault(index, failed)
        self._end()

    @property
    def channel(self) -> Channel:
        """Where the child speaks."""
        return self.child.channel

    def received(self, message: bytes) -> None:
        """Take in a compiled schedule or a round of samples."""
        run = self._run
        silence_s = time.monotonic() - run.heard_s
        run.heard_s += silence_s
        try:
            if run.outputs.take(message):
                return
            said = from_comparison.validate_json(message)
        except ValueError:
            self._lose(TrialFailure(reason=FailureReason.CRASH, message="The child sent something that is no message."))
            return
        if isinstance(said, Compiled) and run.is_compiling:
            self._take_compiled(said)
        elif isinstance(said, Round) and run.is_whole(said):
            fault = self._owner.thread_watch.fault(run.child.pid, self.task.order.num_cores, run.threads)
            if fault:
                self._disturbed(fault)
                return
            run.spent_each_s += silence_s / len(run.asked)
            self._take_round(said)
        else:
            text = f"The child said {said.kind} out of turn."
            self._lose(TrialFailure(reason=FailureReason.CRASH, message=text))

    def ended(self) -> None:
        """The child died: of the schedule it was working on, unless somebody killed it or its host."""
        if not self.task.server.alive:
            self._owner.tasks.replace_host(self.task)
            return
        death = self.child.exit(timeout_s=1.0)
        if was_killed(death) and self._kills < _KILLS_BORNE:
            self._kills += 1
            self.begin_again(self.task)
            return
        doing = "building or running" if self._run.is_compiling else "running"
        self._lose(failure_of_death(death, doing, self.child.output()))

    def go(self) -> None:
        """The device is quiet and ours: one round."""
        run = self._run
        run.heard_s = time.monotonic()
        run.threads = self._owner.thread_watch.look(run.child.pid)
        run.child.resume()
        with suppress(ChannelClosed, TimeoutError):
            places = tuple(run.entrants.index(index) for index in run.asked)
            order = RoundOrder(places=places, tries=self.task.sleep_burst_budget.tries)
            run.child.channel.send(order.model_dump_json().encode(), timeout_s=1.0)

    def check_deadline(self, now_s: float) -> None:
        """Give up the schedule that says nothing for too long."""
        run = self._started
        if run is not None and now_s - run.heard_s > self._deadline_s and not run.is_timed:
            message = f"Nothing came of it within {self._deadline_s:.0f} s."
            self._lose(TrialFailure(reason=FailureReason.RUN_TIMEOUT, message=message))

    def conclude(self) -> None:
        """End with the results, as soon as it is known what is right."""
        run = self._started
        if run is None or not run.is_timed or not self.task.referee.knows(INPUT_SETS):
            return
        self._judge(run)
        if self._started is not run:
            return
        if max(run.errors.values(), default=0.0) > 1.0 and not self.task.is_confirmed:
            self._owner.tasks.confirm(self.task)
            return
        for index in run.entrants:
            if index not in self._results:
                error = run.errors[index]
                timing = timing_of(run.rounds[index], is_estimate=index in run.leading)
                self._results[index] = self._believed(timing) if error <= 1.0 else self.task.wrong_result(error)
        self._end()

    def _forked(self) -> _ComparisonRun:
        """Raises ``ForkFailed``."""
        entrants = [index for index in range(len(self._order.traces)) if index not in self._results]
        # The limits are those of one schedule; each further one has tensors of its own.
        tensors_bytes = sum(size_in_bytes(argument.tensor) for argument in self.task.arguments)
        limits = self._limits.with_more_memory((len(entrants) - 1) * tensors_bytes)
        # Each may be silent until its deadline, at its checks and while it is timed, with every thread computing.
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

    def _take_compiled(self, said: Compiled) -> None:
        run = self._run
        place, index = run.compiled, run.entrants[run.compiled]
        run.compiled += 1
        if said.failure is not None:
            failure = TrialFailure(reason=said.failure.reason, message=said.failure.message[:4000])
            self._results[index] = Failed(failure=failure)
        elif not all(run.outputs.holds(slot) for slot, _ in self._slots(place)):
            failure = TrialFailure(reason=FailureReason.CRASH, message="The child did not send all of its outputs.")
            self._results[index] = Failed(failure=failure)
        if said.leading is not None and self._order.traces[index] is None:
            run.leading[index] = said.leading
        if said.failure is None and self.task.referee.knows(INPUT_SETS):
            self._judge(run)  # now, so that not all outputs of all schedules are kept
        if self._started is run and not run.is_compiling:
            self._next_round()

    @staticmethod
    def _slots(place: int) -> list[tuple[int, int]]:
        """Where the outputs of a schedule lie, each with the number of its set of inputs."""
        return [(place * INPUT_SETS + number, number) for number in range(INPUT_SETS)]

    def _judge(self, run: _ComparisonRun) -> None:
        """Compare what is there, and let it go. The comparison may begin again meanwhile, with other inputs."""
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
        """Begin again where another process interfered, once."""
        if self._was_disturbed:
            self.fail(FailureReason.DEVICE_LOST, f"Another process interferes with what is timed: {fault}.")
        else:
            self._was_disturbed = True
            self.begin_again(self.task)
        self._owner.put_threads_back(self.task)

    def _take_round(self, said: Round) -> None:
        run = self._run
        for index, samples in zip(run.asked, said.samples_s, strict=True):
            run.rounds[index].append(samples)
        run.child.stop()  # its kernels' threads would spin beside whoever has the device next
        self._device_arbiter.release(self)
        self._next_round()

    def _next_round(self) -> None:
        run = self._run
        alive = {index: rounds for index, rounds in run.rounds.items() if index not in self._results}
        run.asked = contenders(alive)
        if not alive or suffice((alive[index] for index in run.asked), run.spent_each_s, self._order.seconds_each):
            run.is_timed = True
            self.conclude()
        else:
            run.child.stop()
            self._device_arbiter.claim(self, len(run.asked) * self.task.turn_s)

    def _lose(self, failure: TrialFailure) -> None:
        """Leave out the schedule the child was busy with, and begin again with the rest."""
        run = self._run
        if run.is_compiling and self._side_by_side:
            self._side_by_side = False  # then it shows which one that is
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

    def _believed(self, timing: Timing) -> Timing | Failed:
        """``timing``, or why no kernel of this function can have it."""
        doubt = self.task.disbelief(timing.latency_s)
        if doubt is None:
            return timing
        self._owner.look_at_device()
        return Failed(failure=doubt)

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
