"""An open exploration: the process that holds it, its reference, and its state so far."""

from collections.abc import Callable

import psutil

from tunefarm_sandbox.channel.channel import ChannelClosed
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkFailed, ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.least_work import LeastWork, disbelief, least_latency_s
from tunefarm_schemas.tuning.measurement import Failed, MeasureTask
from tunefarm_workers.conversation.argument import Argument, Distribution
from tunefarm_workers.conversation.child_death import was_killed
from tunefarm_workers.conversation.event_loop import ChildConversation
from tunefarm_workers.conversation.messages import TaskOrder, TaskReady, from_task_process
from tunefarm_workers.correctness.finite_referee import FiniteReferee
from tunefarm_workers.correctness.output_layout import OutputLayout
from tunefarm_workers.correctness.output_transfer import OutputIntake
from tunefarm_workers.correctness.referee import Referee, slots_to_judge
from tunefarm_workers.correctness.reference_confirmation import Listener, ReferenceConfirmation
from tunefarm_workers.device.cpu_identity import are_declared_siblings
from tunefarm_workers.lane.deadlines import Deadlines
from tunefarm_workers.threads.smt_detection import SleepBurstBudget
from tunefarm_workers.threads.thread_cores import cores_for
from tunefarm_workers.timing.device_arbiter import TURN_S

_PROCESS_READY_S = 60.0
_TURN_CALLS = 15
"""More calls than timing a slow kernel takes, even one with scattered samples at first."""
_REFERENCE_CPU_S = 3600.0
"""Per thread."""
SEED = 20_240_601
"""Inputs are the same on every host and in every run."""


class TaskProcessLost(ForkFailed):
    """Raised when the process of a task was killed while it started. A retry may succeed."""

    def __init__(self, reason: str) -> None:
        super().__init__("server_lost", reason)


class OpenTask:
    """The process that holds one exploration, its referee, its deadlines and its incumbent."""

    def __init__(
        self,
        fork_server: ForkServer,
        order: MeasureTask,
        limits: Limits,
        deadlines: Deadlines,
        on_progress: Callable[["OpenTask"], None],
        *,
        here: MeasureTask | None = None,
        distribution: Distribution = "normal",
    ) -> None:
        """Start the process and the referee.

        ``here`` is the equivalent of ``order`` for this host's processor, if that is not the device.

        Raises:
            BadInput: the module cannot be read, or no inputs can be generated for it.
            TaskProcessLost: the process was killed while it started.
            ForkFailed: ``fork_server`` cannot fork the process.
        """
        self.order = order
        self._here = here or order
        self.distribution: Distribution = distribution
        self.deadlines = deadlines
        self.sleep_burst_budget = SleepBurstBudget(can_help=not are_declared_siblings(cores_for(self._here.num_cores)))
        self.incumbent_s: float | None = None
        self.processes_lost = 0
        self.confirmation: ReferenceConfirmation | None = None
        self._is_confirmed = False
        free_bytes = int(psutil.virtual_memory().available)  # a comparison needs more memory than one schedule
        self.process: Child = fork_server.fork(
            "tunefarm_workers.child.task_process:run",
            self.task_order().model_dump_json().encode(),
            limits=limits.model_copy(update={"children_memory_bytes": free_bytes}),
            confinement=Confinement.fork_server(),
        )
        self.least_work = LeastWork()
        self.arguments = self._arguments()
        self.layout = OutputLayout.of(tuple(argument.tensor for argument in self.arguments))
        if not self.layout.tensors:
            raise BadInput("module", "the function writes none of its parameters.", "Tune a function with an output.")
        self.server: ForkServer = ForkServer.within(self.process)
        try:
            self.referee = self._new_referee(limits, on_progress)
        except ForkFailed as error:
            self.process.close()
            raise TaskProcessLost(error.reason) from error

    def _new_referee(self, limits: Limits, on_progress: Callable[["OpenTask"], None]) -> Referee | FiniteReferee:
        if self.order.is_scheduled:
            may_doubt = self.distribution == "normal" and not self.order.input_specs
            return FiniteReferee(lambda: on_progress(self), may_doubt=may_doubt)
        # Far above the reference's deadline: RLIMIT_CPU ends it only if this process died.
        limits = limits.with_processor_time(self._here.num_cores * _REFERENCE_CPU_S)
        return Referee(
            self.server,
            self.arguments,
            limits,
            lambda: on_progress(self),
            lambda figures: self.deadlines.record_untuned(figures.build_s, figures.latency_s),
        )

    def task_order(self) -> TaskOrder:
        """What the process loads for its children."""
        return TaskOrder(
            module_json=self.order.module_json,
            target=self._here.target,
            num_cores=self._here.num_cores,
            abi=self._here.abi,
            callees=self.order.callees,
            seed=SEED,
            distribution=self.distribution,
            input_specs=self.order.input_specs,
            input_examples=self.order.input_examples,
        )

    def conversations(self) -> list[ChildConversation]:
        """The children that compute and confirm the reference."""
        referee = [self.referee] if isinstance(self.referee, Referee) else []
        return [*referee, *(self.confirmation.conversations if self.confirmation is not None else ())]

    @property
    def is_confirmed(self) -> bool:
        """Whether a candidate may fail by its outputs: the reference is confirmed, or there is none."""
        return self._is_confirmed or not isinstance(self.referee, Referee)

    def confirm(self, limits: Limits, listener: Listener, on_confirmed: Callable[["OpenTask"], None]) -> None:
        """Begin to confirm the reference, once. If it is not confirmed, the referee doubts.

        Raises:
            ForkFailed: no child can be forked.
        """
        if self.confirmation is not None or not isinstance(self.referee, Referee):
            return
        referee = self.referee

        def ended(fault: str) -> None:
            if fault:
                referee.distrust(fault)
            else:
                self._is_confirmed = True
                on_confirmed(self)

        self.confirmation = ReferenceConfirmation(self.server, self.arguments, referee, limits, listener, ended)

    def improve(self, latency_s: float) -> None:
        """Record the latency of a correct candidate."""
        if self.incumbent_s is None or latency_s < self.incumbent_s:
            self.incumbent_s = latency_s

    def implausible(self, latency_s: float) -> TrialFailure | None:
        """Why no kernel of this function can be as fast on the task's processor; None if one can."""
        return disbelief(latency_s, least_latency_s(self.least_work, self.order.target, self.order.num_cores))

    def judge(self, outputs: OutputIntake, sets: int) -> float | None:
        """The worst error of a candidate's outputs on the first ``sets`` sets of inputs, in units of the tolerance.

        The referee must know these sets. None if the candidate did not send all of its outputs.
        """
        slots = slots_to_judge(sets, repeated_calls_agree=self.referee.repeated_calls_agree)
        if not all(outputs.holds(slot) for slot, _ in slots):
            return None
        return self.referee.judge((number, outputs.arrays(slot)) for slot, number in slots)

    def wrong_result(self, error: float) -> Failed:
        """The result of a candidate with an error above 1."""
        message = self.referee.complaint(error)
        return Failed(failure=TrialFailure(reason=FailureReason.WRONG_RESULT, message=message))

    @property
    def turn_s(self) -> float:
        """How long others are held still while a kernel as fast as the incumbent is timed."""
        return max(TURN_S, _TURN_CALLS * (self.incumbent_s or 0.0))

    def close(self) -> None:
        """End the process and all its children."""
        if self.confirmation is not None:
            self.confirmation.close()
        self.referee.close()
        self.server.close()
        self.process.close()

    def _arguments(self) -> tuple[Argument, ...]:
        try:
            reply = from_task_process.validate_json(self.process.channel.receive(timeout_s=_PROCESS_READY_S))
        except (ChannelClosed, TimeoutError) as error:
            tail = self.process.output()[-500:].strip()
            death = self.process.exit(timeout_s=1.0)
            self.process.close()
            if was_killed(death):
                raise TaskProcessLost(f"the process of a task ended: {tail or 'killed'}") from error
            raise BadInput(
                "module", f"reading it crashed a process: {tail or error}.", "Save it again with this version of TVM."
            ) from error
        if isinstance(reply, TaskReady):
            self.deadlines.record_inputs(reply.input_set_s)
            self.least_work = reply.least_work
            return reply.arguments
        self.process.close()
        raise BadInput(reply.field, reply.problem, reply.fix)
