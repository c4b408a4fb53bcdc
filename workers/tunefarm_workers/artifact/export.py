"""Exports a schedule: a shared library that is checked and timed in fresh processes."""

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Protocol, TypeVar

from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkFailed, ForkServer
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.device import PROTOCOLS
from tunefarm_schemas.tuning.measurement import Exported, ExportOrder, ExportResult, Failed
from tunefarm_workers.artifact.fresh_inputs import FreshInputs
from tunefarm_workers.artifact.fresh_runner import FreshRunner
from tunefarm_workers.artifact.library_inputs import tensor_order
from tunefarm_workers.artifact.library_order import LibraryOrder, RivalOrder
from tunefarm_workers.builder.checked_library import checked_library
from tunefarm_workers.conversation.argument import Argument
from tunefarm_workers.conversation.child_answer import ChildFailed, OnWait, answer_of, canceled
from tunefarm_workers.conversation.messages import Broken, InputsOrder, Linked, LinkOrder, TaskOrder, from_linker
from tunefarm_workers.correctness.tolerance import Array
from tunefarm_workers.threads.shared_cache_wait import SharedCacheWait
from tunefarm_workers.timing.neighbours import Neighbours
from tunefarm_workers.timing.processor_clock import queueing_time_s

_LINK_S = 120.0
_LINK_CPU_S = 4 * _LINK_S
"""Enforced by the kernel, so that a compiler whose parent died ends."""
_REUSES = 4
"""How often a small kernel is exercised and compared again, at about 40 ms each."""
_SHORT_S, _FEW_ELEMENTS = 0.01, 1 << 18
_MAX_KILLS = 2
"""How often an export is repeated after its child was killed."""


T = TypeVar("T")


@dataclass(frozen=True)
class _Timed:
    """Times of one fresh process. For ``queueing_s`` of ``took_s`` its slowest thread waited for a core."""

    latency_s: float
    untuned_s: float | None
    took_s: float
    queueing_s: float


class Quiet(Protocol):
    """Runs an action while the device is quiet."""

    def __call__(self, action: Callable[[], T]) -> T:
        """Return the result of ``action``."""


class Exporter:
    """Compiles a library, checks it and times it in fresh processes, on its caller's thread."""

    def __init__(
        self,
        fork_server: ForkServer,
        scratch: Path,
        limits: Limits,
        quiet: Quiet,
        error_of: Callable[[list[Array]], float],
        doubt_of: Callable[[float], TrialFailure | None],
        shared_cache_wait: SharedCacheWait,
        neighbours: Neighbours,
        on_wait: OnWait,
    ) -> None:
        """``error_of`` returns the error of outputs on the first inputs, as a multiple of the allowed error.

        ``doubt_of`` returns why a latency is implausible for the function, or None.
        """
        self._fork_server = fork_server
        self._scratch = scratch
        self._limits = limits
        self._quiet = quiet
        self._error_of = error_of
        self._doubt_of = doubt_of
        self._shared_cache_wait = shared_cache_wait
        self._neighbours = neighbours
        self._on_wait = on_wait

    def export(
        self, order: ExportOrder, task: TaskOrder, arguments: tuple[Argument, ...], protocol_id: str
    ) -> ExportResult:
        """Return the library and its latencies, or the failure.

        Raises:
            ForkFailed: the fork server is gone; the schedule is not at fault.
        """
        for kills in range(_MAX_KILLS + 1):
            try:
                return self._exported(order, task, arguments, protocol_id)
            except ChildFailed as failed:
                failure = failed.failure
                if not failed.may_be_tried_again or kills == _MAX_KILLS:
                    break
            except ForkFailed as error:
                if not self._fork_server.alive:
                    raise
                message = f"No child could be forked: {error}"[:4000]
                failure = TrialFailure(reason=FailureReason.DEVICE_LOST, message=message)
        return Failed(failure=failure)

    # Fresh processes, because the placement of code and data in memory is chosen when a process starts, and a kernel's
    # latency depends on it: the spread over several processes is the interval of the record.
    # 1. Start everything side by side: linking the schedule and the untuned function, making inputs, the processes.
    # 2. Check the library's bytes before any process loads it.
    # 3. One process after the other loads the library, checks its first outputs, is timed on a quiet device and ends,
    #    because the threads of a loaded library disturb the next process.
    # 4. The last process also exercises the library and checks its outputs again.
    def _exported(
        self, order: ExportOrder, task: TaskOrder, arguments: tuple[Argument, ...], protocol_id: str
    ) -> Exported:
        self._scratch.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            folder = Path(tempfile.mkdtemp(prefix="export-", dir=self._scratch))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            linking = stack.enter_context(self._begin_link(order, task, folder / "link"))
            stack.enter_context(self._neighbours.of(linking))
            linking_untuned = None
            if order.beside_untuned:
                untuned = order.model_copy(update={"trace": None})
                linking_untuned = stack.enter_context(self._begin_link(untuned, task, folder / "untuned"))
                stack.enter_context(self._neighbours.of(linking_untuned))
            inputs = stack.enter_context(FreshInputs(self._fork_server, InputsOrder.of(task, arguments), self._limits))
            stack.enter_context(self._neighbours.of(inputs.child))
            runners = [
                stack.enter_context(self._begin_runner(inputs, task.num_cores, folder)) for _ in range(order.processes)
            ]
            for runner in runners:
                stack.enter_context(self._neighbours.of(runner.child))
            linked, library = self._linked(linking)
            checked_library(library, task.target, task.callees)
            (folder / "shipped.so").write_bytes(library)
            fresh = LibraryOrder(
                library=str(folder / "shipped.so"),
                digest=digest(library),
                entry=linked.entry,
                pack_entry=linked.pack_entry,
                tensors=inputs.tensors,
                packed=tuple(map(tensor_order, linked.packed_arguments)),
                num_cores=task.num_cores,
                cold_cache=PROTOCOLS[protocol_id].cold_cache,
                likely_s=order.likely_s,
                rival=None if linking_untuned is None else self._rival(linking_untuned, task, folder),
            )
            inputs.wait(self._on_wait)
            timed = self._time_in_turn(runners, fresh)
        return Exported(
            library=library,
            entry=linked.entry,
            pack_entry=linked.pack_entry,
            packed_arguments=linked.packed_arguments,
            process_latencies_s=tuple(each.latency_s for each in timed),
            untuned_latencies_s=tuple(each.untuned_s for each in timed if each.untuned_s is not None),
            foreign_load=_load_of(timed),
        )

    def _begin_link(self, order: ExportOrder, task: TaskOrder, own: Path) -> Child:
        own.mkdir(mode=0o777)
        trace = None if order.trace is None else order.trace.text
        return self._fork_server.fork(
            "tunefarm_workers.child.link_child:run",
            LinkOrder(task=task, trace=trace, folder=str(own)).model_dump_json().encode(),
            limits=self._limits.with_processor_time(_LINK_CPU_S),
            confinement=Confinement.compiler(str(own)),
        )

    def _begin_runner(self, inputs: FreshInputs, num_cores: int, folder: Path) -> FreshRunner:
        if not self._on_wait():
            raise canceled()
        return FreshRunner(self._fork_server, inputs, num_cores, folder, self._limits, self._on_wait)

    def _rival(self, linking: Child, task: TaskOrder, folder: Path) -> RivalOrder | None:
        """Link the untuned function's library; None if that fails, for which the schedule is not to blame."""
        try:
            linked, library = self._linked(linking)
            checked_library(library, task.target, task.callees)
        except ChildFailed as failed:
            if failed.failure.reason is FailureReason.CANCELED:
                raise
            return None
        (folder / "rival.so").write_bytes(library)
        return RivalOrder(library=str(folder / "rival.so"), digest=digest(library), entry=linked.entry)

    def _linked(self, linking: Child) -> tuple[Linked, bytes]:
        with linking:
            answer = from_linker.validate_json(answer_of(linking, _LINK_S, "building", self._on_wait))
            if isinstance(answer, Broken):
                raise ChildFailed(TrialFailure(reason=answer.reason, message=answer.message[:4000]))
            return answer, answer_of(linking, _LINK_S, "building", self._on_wait)

    def _time_in_turn(self, runners: Sequence[FreshRunner], order: LibraryOrder) -> tuple["_Timed", ...]:
        """Let each runner load, run, be timed and end before the next one loads."""
        for runner in runners:
            runner.wait_until_ready()
        last = runners[-1]
        return tuple(self._time(runner, order, is_last=runner is last) for runner in runners)

    def _time(self, runner: FreshRunner, order: LibraryOrder, *, is_last: bool) -> "_Timed":
        with runner:
            self._neighbours.leave(runner.child)
            error = self._error_of(runner.outputs(order))
            if error > 1.0:
                message = f"The library's output is wrong: its error is {error:.3g} times the tolerance."
                raise ChildFailed(TrialFailure(reason=FailureReason.WRONG_RESULT, message=message))
            likely_s = order.likely_s or 0.0
            self._shared_cache_wait.wait(likely_s, lambda: self._quiet(runner.shares_cache), self._on_wait)
            timed = self._quiet(lambda: _timed(runner, has_rival=order.rival is not None))
            doubt = self._doubt_of(timed.latency_s)
            if doubt is not None:
                raise ChildFailed(doubt)
            if is_last:
                self._check_after_use(runner, order, timed.latency_s)
            return timed

    def _check_after_use(self, runner: FreshRunner, order: LibraryOrder, latency_s: float) -> None:
        """Raise ``ChildFailed`` if the kernel's outputs are wrong after other use."""
        elements = sum(prod(tensor.shape) for tensor in order.tensors if tensor.is_output)
        small = latency_s < _SHORT_S and elements <= _FEW_ELEMENTS
        for _ in range(_REUSES if small else 1):
            error = self._error_of(runner.outputs_again(order))
            if not error <= 1.0:
                message = (
                    f"The library's output is wrong after other use: its error is {error:.3g} times the tolerance."
                )
                raise ChildFailed(TrialFailure(reason=FailureReason.WRONG_RESULT, message=message))


def _timed(runner: FreshRunner, *, has_rival: bool) -> _Timed:
    began_s, queued_s = time.monotonic(), queueing_time_s(runner.child.pid)
    own, rival = runner.time_both() if has_rival else (runner.time(), None)
    return _Timed(
        latency_s=own.latency_s,
        untuned_s=None if rival is None else rival.latency_s,
        took_s=time.monotonic() - began_s,
        queueing_s=max(queueing_time_s(runner.child.pid) - queued_s, 0.0),
    )


def _load_of(timed: Sequence[_Timed]) -> float:
    """Return the share of the time for which a thread of the kernel waited for a core."""
    return min(sum(each.queueing_s for each in timed) / max(sum(each.took_s for each in timed), 1e-9), 1.0)
