"""Schedules timed side by side, as the lane sees it."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from statistics import median
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
from tunefarm_workers.correctness.output_samples import OutputSamples
from tunefarm_workers.correctness.output_transfer import OutputIntake
from tunefarm_workers.lane.open_task import OpenTask
from tunefarm_workers.threads.thread_watch import CoresOfThreads, ThreadWatch
from tunefarm_workers.timing.device_arbiter import DeviceArbiter
from tunefarm_workers.timing.sampling import is_calm

_PATIENCE = 4
"""How many times the wanted seconds may be spent where samples scatter."""
_MIN_SAMPLES = 5
_ROUNDS_OF_ALL = 2
"""So many rounds all take part in; the further ones are for those that may be the fastest."""
_CLEARLY = 1.03
_KILLS_BORNE = 2
"""How many times a child that somebody killed is replaced before the schedule it was busy with is blamed."""


class ComparisonOwner(Protocol):
    """What a comparison needs of its lane."""

    @property
    def device_arbiter(self) -> DeviceArbiter:
        """Where to ask for the device."""

    def listen(self, conversation: ChildConversation) -> None:
        """Listen to the comparison's child."""

    def forget(self, conversation: ChildConversation) -> None:
        """Stop listening to it."""

    @property
    def thread_watch(self) -> ThreadWatch:
        """What knows how threads have to be while they are timed."""

    def put_threads_back(self, task: OpenTask) -> None:
        """Undo what another process did to those that children are forked from."""

    def confirm(self, task: OpenTask) -> None:
        """Confirm the reference of ``task``; ``RunningComparison.conclude`` is called again afterwards."""

    def host_died(self, task: OpenTask) -> None:
        """Take the news that the host of ``task`` is gone, and its children with it."""

    def look_at_device(self) -> None:
        """Have the device checked as soon as it is free."""


class RunningComparison:
    """Compiles all schedules in one child, checks each, and has them timed in rounds on a quiet device.

    A schedule that takes the child down is found out, by compiling them one after the other, and left out.
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
        """``deadline_s`` bounds the wait for each message. Nothing happens before ``start``."""
        self.task = task
        self._order = order
        self._owner = owner
        self._device_arbiter = owner.device_arbiter
        self._limits = limits
        self._deadline_s = deadline_s
        self._on_end = on_end
        self._results: dict[int, Result] = {}
        self._rounds: dict[int, list[tuple[float, ...]]] = {}
        self._timed = False
        self._kills = 0
        self._was_disturbed = False
        self._threads: CoresOfThreads = {}
        self._side_by_side = True
        self._child: Child | None = None
        self._outputs: OutputIntake
        self.computes = True

    @property
    def child(self) -> Child:
        """The child that compiles and times."""
        assert self._child is not None, "nothing is listened to before there is a child"
        return self._child

    def start(self) -> None:
        """Fork the first child."""
        self._go_on()

    def begin_again(self, task: OpenTask) -> None:
        """Go on with another host: what has not failed is compiled and timed anew."""
        self._device_arbiter.release(self)
        self._drop_child()
        self.task = task
        self._go_on()

    def lose_device(self, message: str) -> None:
        """End now, for no process can be had; ``message`` tells why."""
        self._end_with(TrialFailure(reason=FailureReason.DEVICE_LOST, message=message[:4000]))

    @property
    def channel(self) -> Channel:
        """Where the child speaks."""
        return self.child.channel

    def received(self, message: bytes) -> None:
        """Take in a compiled schedule or a round of samples."""
        silence_s = time.monotonic() - self._heard_s
        self._heard_s += silence_s
        try:
            if self._outputs.take(message):
                return
            said = from_comparison.validate_json(message)
        except ValueError:
            self._lose(TrialFailure(reason=FailureReason.CRASH, message="The child sent something that is no message."))
            return
        if isinstance(said, Compiled) and self._is_compiling:
            self._take_compiled(said)
        elif isinstance(said, Round) and self._is_whole(said):
            fault = self._owner.thread_watch.fault(self.child.pid, self.task.order.num_cores, self._threads)
            if fault:
                self._disturbed(fault)
                return
            self._spent_each_s += silence_s / len(self._asked)
            self._take_round(said)
        else:
            text = f"The child said {said.kind} out of turn."
            self._lose(TrialFailure(reason=FailureReason.CRASH, message=text))

    def ended(self) -> None:
        """The child died: of the schedule it was working on, unless somebody killed it or its host."""
        if not self.task.server.alive:
            self._owner.host_died(self.task)
            return
        death = self.child.exit(timeout_s=1.0)
        if was_killed(death) and self._kills < _KILLS_BORNE:
            self._kills += 1
            self.begin_again(self.task)
            return
        doing = "building or running" if self._is_compiling else "running"
        self._lose(failure_of_death(death, doing, self.child.output()))

    def go(self) -> None:
        """The device is quiet and ours: one round."""
        self._heard_s = time.monotonic()
        self._threads = self._owner.thread_watch.look(self.child.pid)
        self.child.resume()
        with suppress(ChannelClosed, TimeoutError):
            places = tuple(self._entrants.index(index) for index in self._asked)
            order = RoundOrder(places=places, tries=self.task.sleep_burst_budget.tries)
            self.child.channel.send(order.model_dump_json().encode(), timeout_s=1.0)

    def check_deadline(self, now_s: float) -> None:
        """Give up the schedule that says nothing for too long."""
        if now_s - self._heard_s > self._deadline_s and not self._timed:
            message = f"Nothing came of it within {self._deadline_s:.0f} s."
            self._lose(TrialFailure(reason=FailureReason.RUN_TIMEOUT, message=message))

    def conclude(self) -> None:
        """End with the results, as soon as it is known what is right."""
        if not self._timed or not self.task.referee.knows(INPUT_SETS):
            return
        self._judge()
        if max(self._errors.values(), default=0.0) > 1.0 and not self.task.is_confirmed:
            self._owner.confirm(self.task)
            return
        for index in self._entrants:
            if index not in self._results:
                error = self._errors[index]
                self._results[index] = self._believed(self._timing(index)) if error <= 1.0 else _wrong(error)
        self._end()

    def cancel(self) -> None:
        """End now: what was not timed is canceled."""
        self._end_with(TrialFailure(reason=FailureReason.CANCELED, message="It was canceled."))

    def _go_on(self) -> None:
        """Fork a child for the schedules that are still in."""
        try:
            self._child = self._fork()
        except ForkFailed as error:
            if self.task.server.alive:
                self.lose_device(f"No child could be forked: {error}")
            else:
                self._owner.host_died(self.task)
            return
        self._owner.listen(self)

    def _fork(self) -> Child:
        self._timed = False
        self._entrants = [index for index in range(len(self._order.traces)) if index not in self._results]
        self._compiled = 0
        self._rounds = {index: [] for index in self._entrants}
        self._asked: list[int] = []
        self._spent_each_s = 0.0
        self._heard_s = time.monotonic()
        self.computes = True
        self._outputs = OutputIntake([self.task.layout] * INPUT_SETS * len(self._entrants))
        self._errors: dict[int, float] = {}
        self._leading: dict[int, int] = {}  # of what was computed at samples only
        # The limits are those of one schedule; each further one has tensors of its own.
        tensors_bytes = sum(size_in_bytes(argument.tensor) for argument in self.task.arguments)
        limits = self._limits.with_more_memory((len(self._entrants) - 1) * tensors_bytes)
        # Each may be silent until its deadline, at its checks and while it is timed, with every thread computing.
        each_s = 2 * self._deadline_s + _PATIENCE * self._order.seconds_each
        limits = limits.with_processor_time(self.task.order.num_cores * each_s * max(len(self._entrants), 1))
        traces = [self._order.traces[index] for index in self._entrants]
        self._drawn = OutputSamples.drawn(self.task.layout)
        plan = ComparisonPlan(
            traces=tuple(None if trace is None else trace.text for trace in traces),
            cold_cache=PROTOCOLS[self.task.order.protocol_id].cold_cache,
            side_by_side=self._side_by_side,
            samples=self._drawn.elements,
        )
        return self.task.server.fork(
            "tunefarm_workers.child.comparison_child:run",
            plan.model_dump_json().encode(),
            limits=limits,
            confinement=Confinement.strict(may_pin_threads=True),
        )

    @property
    def _is_compiling(self) -> bool:
        """Whether a schedule is still to be compiled or checked."""
        return self._compiled < len(self._entrants)

    def _take_compiled(self, said: Compiled) -> None:
        index = self._entrants[self._compiled]
        self._compiled += 1
        if said.failure is not None:
            failure = TrialFailure(reason=said.failure.reason, message=said.failure.message[:4000])
            self._results[index] = Failed(failure=failure)
        elif not all(self._outputs.holds(slot) for slot, _ in self._slots(self._compiled - 1)):
            failure = TrialFailure(reason=FailureReason.CRASH, message="The child did not send all of its outputs.")
            self._results[index] = Failed(failure=failure)
        if said.leading is not None and self._order.traces[index] is None:
            self._leading[index] = said.leading
        if said.failure is None and self.task.referee.knows(INPUT_SETS):
            self._judge()  # now, so that not all outputs of all schedules are kept
        if self._compiled == len(self._entrants):
            self._next_round()

    @staticmethod
    def _slots(place: int) -> list[tuple[int, int]]:
        """Where the outputs of a schedule lie, each with the number of its set of inputs."""
        return [(place * INPUT_SETS + number, number) for number in range(INPUT_SETS)]

    def _judge(self) -> None:
        """Compare what is there, and let it go."""
        for place, index in enumerate(self._entrants[: self._compiled]):
            if index in self._results or index in self._errors:
                continue
            slots = self._slots(place)
            own = [(number, self._outputs.arrays(slot)) for slot, number in slots]
            leading = self._leading.get(index)
            self._errors[index] = (
                self.task.referee.judge(own)
                if leading is None
                else self.task.referee.judge_samples(self._drawn, leading, own)
            )
            for slot, _ in slots:
                self._outputs.drop(slot)

    def _disturbed(self, fault: str) -> None:
        """Begin again where another process interfered, once."""
        if self._was_disturbed:
            self.lose_device(f"Another process interferes with what is timed: {fault}.")
        else:
            self._was_disturbed = True
            self.begin_again(self.task)
        self._owner.put_threads_back(self.task)

    def _is_whole(self, said: Round) -> bool:
        """Whether a round has samples of every schedule that it was asked for."""
        return bool(self._asked) and len(said.samples_s) == len(self._asked) and all(said.samples_s)

    def _take_round(self, said: Round) -> None:
        for index, samples in zip(self._asked, said.samples_s, strict=True):
            self._rounds[index].append(samples)
        self.child.stop()  # its kernels' threads would spin beside whoever has the device next
        self._device_arbiter.release(self)
        self._next_round()

    def _next_round(self) -> None:
        self.computes = False
        alive = {index: rounds for index, rounds in self._rounds.items() if index not in self._results}
        self._asked = contenders(alive)
        calm = all(len(self._samples(index)) >= _MIN_SAMPLES and is_calm(self._samples(index)) for index in self._asked)
        wanted_s = self._order.seconds_each * (1 if calm else _PATIENCE)
        if not alive or self._spent_each_s >= wanted_s:
            self._timed = True
            self.conclude()
        else:
            self.child.stop()
            self._device_arbiter.claim(self, len(self._asked) * self.task.turn_s)

    def _lose(self, failure: TrialFailure) -> None:
        """Leave out the schedule the child was busy with, and begin again with the rest."""
        if self._is_compiling and self._side_by_side:
            self._side_by_side = False  # then it shows which one that is
            self.begin_again(self.task)
            return
        self._device_arbiter.release(self)
        if self._is_compiling:
            self._results[self._entrants[self._compiled]] = Failed(failure=failure)
        else:
            for index in self._entrants:
                self._results.setdefault(index, Failed(failure=failure))
        self._drop_child()
        if len(self._results) == len(self._order.traces):
            self._end()
            return
        self._go_on()

    def _samples(self, index: int) -> tuple[float, ...]:
        return tuple(sample for samples in self._rounds[index] for sample in samples)

    def _timing(self, index: int) -> Timing:
        """From all samples; where somebody else on the host disturbed them, from the calmest rounds."""
        samples = self._samples(index)
        if not is_calm(samples):
            samples = ()
            for one_round in sorted(self._rounds[index], key=median):
                samples = samples if len(samples) >= _MIN_SAMPLES else samples + one_round
        return Timing(latency_s=median(samples), samples_s=samples, is_estimate=index in self._leading)

    def _believed(self, timing: Timing) -> Timing | Failed:
        """``timing``, or why no kernel of this function can have it."""
        doubt = self.task.disbelief(timing.latency_s)
        if doubt is None:
            return timing
        self._owner.look_at_device()
        return Failed(failure=doubt)

    def _end_with(self, failure: TrialFailure) -> None:
        """End with what is known, and with ``failure`` for the rest."""
        for index in range(len(self._order.traces)):
            self._results.setdefault(index, Failed(failure=failure))
        self._end()

    def _end(self) -> None:
        self._device_arbiter.release(self)
        self._drop_child()
        results = tuple(self._results[index] for index in range(len(self._order.traces)))
        self._on_end(self, Comparison(results=results))

    def _drop_child(self) -> None:
        self._owner.forget(self)
        if self._child is not None:
            self._child.close()


def contenders(rounds: Mapping[int, Sequence[Sequence[float]]]) -> list[int]:
    """Which schedules may still be the fastest, by the samples of the rounds that each was in.

    Out is who was clearly slower than the fastest in each of the first rounds: side by side, that is no accident.
    """
    medians = {index: [median(samples) for samples in own] for index, own in rounds.items()}
    turns = max(map(len, medians.values()), default=0)
    if turns < _ROUNDS_OF_ALL:
        return list(rounds)
    fastest = [min(own[turn] for own in medians.values() if len(own) > turn) for turn in range(turns)]
    return [
        index
        for index, own in medians.items()
        if any(own[turn] <= _CLEARLY * fastest[turn] for turn in range(len(own)))
    ]


def _wrong(error: float) -> Failed:
    message = f"The output is wrong: its error is {error:.3g} times what is allowed."
    return Failed(failure=TrialFailure(reason=FailureReason.WRONG_RESULT, message=message))
