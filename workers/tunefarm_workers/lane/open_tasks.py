"""Opens, replaces and closes the processes and referees of a lane's tasks."""

from collections.abc import Callable
from typing import Final, Protocol

from tunefarm_sandbox.fork_server.fork_server import ForkFailed, ForkServer
from tunefarm_schemas.bad_input import BadInput, UnverifiableFunction
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.device import PROTOCOLS
from tunefarm_schemas.tuning.measurement import MeasureTask
from tunefarm_workers.conversation.argument import Distribution
from tunefarm_workers.conversation.farm_settings import FarmSettings
from tunefarm_workers.correctness.referee import Doubt, Referee
from tunefarm_workers.correctness.reference_confirmation import Listener
from tunefarm_workers.correctness.unverifiable import unverifiable
from tunefarm_workers.lane.deadlines import Deadlines
from tunefarm_workers.lane.open_task import OpenTask, TaskProcessLost

_MAX_PROCESSES_LOST: Final = 3
"""How often a killed process is replaced before its task's attempts fail."""
UNVERIFIABLE: Final = "Its function cannot be verified."


class TaskOwner(Protocol):
    """The lane of the tasks."""

    def judge(self, task: OpenTask) -> None:
        """Judge the attempts and comparisons that wait for the reference of ``task``."""

    def fail(self, task: OpenTask, reason: FailureReason, message: str) -> None:
        """Fail all attempts and comparisons of ``task``."""

    def refuse(self, task: OpenTask, error: UnverifiableFunction) -> None:
        """Report that ``task`` cannot be verified. Its attempts and comparisons have ended."""

    def suspend(self, task: OpenTask) -> None:
        """End the children of ``task`` before its process ends, and queue their attempts again."""

    def resume(self, task: OpenTask, fresh: OpenTask) -> None:
        """Continue the comparisons of ``task`` on ``fresh``, which replaces it."""


class OpenTasks:
    """The open tasks, by exploration. All methods run on the thread of the lane's event loop.

    A task is replaced when its process dies, and when its function needs other inputs:

    1. The lane ends the task's children and queues their attempts again (``TaskOwner.suspend``). This comes first:
       children are forked from the process, and their ends must not be taken for failures of candidates.
    2. The process and referee end, and new ones start.
    3. The lane continues with the new task (``TaskOwner.resume``).
    """

    def __init__(
        self,
        fork_server: ForkServer,
        settings: FarmSettings,
        owner: TaskOwner,
        listener: Listener,
        for_host: Callable[[MeasureTask], MeasureTask] = lambda order: order,
    ) -> None:
        """``for_host`` maps an order for the device to the equivalent order for this host's processor."""
        self._fork_server = fork_server
        self._settings = settings
        self._owner = owner
        self._listener = listener
        self._for_host = for_host
        self._tasks: dict[str, OpenTask] = {}

    def __getitem__(self, exploration_id: str) -> OpenTask:
        """The open task of an exploration."""
        return self._tasks[exploration_id]

    def open(self, order: MeasureTask) -> None:
        """Start an exploration's process and referee, unless it is open.

        Raises:
            BadInput: the module cannot be read, or no inputs can be generated for it.
            ForkFailed: the fork server is dead, or each new process was killed while it started.
        """
        if order.exploration_id not in self._tasks:
            self._tasks[order.exploration_id] = self._start(order, "normal")

    def close(self, exploration_id: str) -> None:
        """End an exploration's process. Its attempts and comparisons must have ended."""
        if (task := self._tasks.pop(exploration_id, None)) is not None:
            self._end(task)

    def close_all(self) -> None:
        """End every process. The loop's thread must have ended."""
        for task in self._tasks.values():
            task.close()
        self._tasks.clear()

    def verifiable(self, exploration_id: str) -> OpenTask:
        """The task of an exploration. Raises ``UnverifiableFunction`` if its outputs cannot be verified."""
        task = self._tasks[exploration_id]
        if task.referee.doubt is not None:
            raise unverifiable(exploration_id, task.referee.doubt, task.referee.doubt_text)
        return task

    def with_reference(self, exploration_id: str, sets: int) -> OpenTask | None:
        """The task, or None while its first ``sets`` reference outputs are missing. Raises as ``verifiable``."""
        task = self.verifiable(exploration_id)
        return task if task.referee.knows(sets) else None

    def confirm(self, task: OpenTask) -> None:
        """Confirm the reference of ``task`` before it fails a candidate, then judge the waiting outputs."""
        try:
            task.confirm(self._settings.child_limits(), self._listener, self._owner.judge)
        except ForkFailed:
            self.replace_process(task)

    def replace_process(self, task: OpenTask) -> bool:
        """Replace a dead process and its children. Too many losses fail the task's attempts instead and return False.

        Raises ``ForkFailed`` if the fork server is dead.
        """
        if not self._is_open(task):
            return False
        if task.processes_lost >= _MAX_PROCESSES_LOST:
            message = f"The process that holds the task was killed {task.processes_lost + 1} times."
            self._owner.fail(task, FailureReason.DEVICE_LOST, message)
            return False
        task.processes_lost += 1
        self._reopen(task, task.distribution)
        return True

    def tick(self, moving_s: float) -> None:
        """End references that take too long. ``moving_s`` is a clock that pauses while children are held still."""
        limit_s = self._settings.reference_s
        for task in list(self._tasks.values()):
            if isinstance(task.referee, Referee):
                task.referee.check_deadline(moving_s, limit_s)
            if task.confirmation is not None and task.confirmation.tick(moving_s, limit_s):
                self.replace_process(task)

    def _is_open(self, task: OpenTask) -> bool:
        """Whether the task was not replaced; a replaced one may still report progress."""
        return self._tasks.get(task.order.exploration_id) is task

    def _on_progress(self, task: OpenTask) -> None:
        """Handle progress of a referee: more reference outputs, a doubt, or the loss of its process."""
        if not self._is_open(task):
            return
        referee = task.referee
        if isinstance(referee, Referee):
            self._listener.forget(referee)
        if referee.task_process_is_lost:
            self.replace_process(task)
            return
        if isinstance(referee, Referee) and not referee.is_done:  # its child may have been replaced
            self._listener.listen(referee)
        if referee.doubt is Doubt.NOT_FINITE and task.distribution == "normal":
            self._reopen(task, "positive")  # such as for a square root
        elif referee.doubt is not None:
            self._refuse(task, unverifiable(task.order.exploration_id, referee.doubt, referee.doubt_text))
        else:
            self._owner.judge(task)

    def _reopen(self, task: OpenTask, distribution: Distribution) -> None:
        """Replace the task's process and referee, as described above."""
        self._owner.suspend(task)
        self._end(task)
        try:
            fresh = self._start(task.order, distribution)
        except BadInput as problem:
            exploration_id = task.order.exploration_id
            self._refuse(task, UnverifiableFunction(exploration_id, problem.field, problem.problem, problem.fix))
            return
        fresh.processes_lost = task.processes_lost
        if distribution == task.distribution:  # on other inputs the latency may differ
            fresh.incumbent_s = task.incumbent_s
        self._tasks[task.order.exploration_id] = fresh
        self._owner.resume(task, fresh)

    def _refuse(self, task: OpenTask, error: UnverifiableFunction) -> None:
        self._owner.fail(task, FailureReason.CANCELED, UNVERIFIABLE)
        self._owner.refuse(task, error)

    def _start(self, order: MeasureTask, distribution: Distribution) -> OpenTask:
        """Start a process and referee and listen to the referee. A process killed while it starts is replaced."""
        limits, here = self._settings.child_limits(), self._for_host(order)
        deadlines = Deadlines(
            first_build_s=self._settings.first_build_s,
            min_build_s=self._settings.min_build_s,
            first_run_s=self._settings.first_run_s,
            cold_cache=PROTOCOLS[order.protocol_id].cold_cache,
            measures_here=here is order,
        )
        lost = 0
        while True:
            try:
                task = OpenTask(
                    *(self._fork_server, order, limits, deadlines, self._on_progress),
                    here=here,
                    distribution=distribution,
                )
                break
            except TaskProcessLost:
                if lost == _MAX_PROCESSES_LOST:
                    raise
                lost += 1
        if isinstance(task.referee, Referee):
            self._listener.listen(task.referee)
        return task

    def _end(self, task: OpenTask) -> None:
        for conversation in task.conversations():
            self._listener.forget(conversation)
        task.close()
