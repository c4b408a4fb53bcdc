"""Schedules timed side by side in one session with the device, on the caller's thread."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.device import PROTOCOLS
from tunefarm_schemas.tuning.measurement import Comparison, ComparisonOrder, Failed, Result
from tunefarm_workers.conversation.child_answer import ChildFailed, OnWait, canceled
from tunefarm_workers.conversation.messages import Broken, Round
from tunefarm_workers.correctness.inputs import INPUT_SETS
from tunefarm_workers.correctness.output_transfer import OutputIntake
from tunefarm_workers.correctness.tolerance import Array
from tunefarm_workers.lane.open_task import OpenTask
from tunefarm_workers.session.compiler.library_build import in_memory
from tunefarm_workers.session.device.session_messages import (
    Entered,
    EnterRequest,
    LibraryShape,
    RoundRequest,
)
from tunefarm_workers.session.device_session import DeviceLost, DeviceSession
from tunefarm_workers.timing.interleaved_timing import suffice, timing_of

_ROUND_S = 120.0
_MAX_LOSSES = 2

Library = tuple[LibraryShape, bytes]
Judge = Callable[[Sequence[tuple[int, Sequence[Array]]]], float]
"""The error of outputs, each with the number of its set of inputs, in units of the tolerance."""
SessionOf = Callable[[OpenTask], DeviceSession]
"""Opens a session with the device, which the caller closes."""


class SessionComparison:
    """Loads all libraries in one session, checks each on three sets of inputs, and times them in rounds.

    A library that ends the session fails, and the others begin again.
    """

    def __init__(self, task: OpenTask, order: ComparisonOrder, session_of: SessionOf, on_wait: OnWait) -> None:
        """``on_wait`` is called a few times a second; False cancels the comparison."""
        self._task = task
        self._order = order
        self._session_of = session_of
        self._on_wait = on_wait
        self._results: dict[int, Result] = {}
        self._losses = 0

    def run(self, libraries: Sequence[Library | TrialFailure], judge: Judge) -> Comparison:
        """Time the libraries. The caller owns the device."""
        for index, library in enumerate(libraries):
            if isinstance(library, TrialFailure):
                self._results[index] = Failed(failure=library)
        while len(self._results) < len(libraries):
            alive = {
                index: library
                for index, library in enumerate(libraries)
                if index not in self._results and not isinstance(library, TrialFailure)
            }
            try:
                self._one_session(alive, judge)
            except DeviceLost as lost:
                self._losses += 1
                if self._losses > _MAX_LOSSES:
                    self._end_with(alive, lost.failure)
            except ChildFailed as failed:
                self._end_with(alive, failed.failure)
        return Comparison(results=tuple(self._results[index] for index in range(len(libraries))))

    def _one_session(self, alive: dict[int, Library], judge: Judge) -> None:
        """Run the whole comparison in one session. Returns early, with one more result, if a library ends it."""
        with closing(self._session_of(self._task)) as session:
            for index, library in alive.items():
                failure = self._enter(session, library, judge)
                if failure is not None:
                    self._results[index] = Failed(failure=failure)
                    return
            samples = self._rounds(session, len(alive))
        for place, index in enumerate(alive):
            self._results[index] = timing_of([samples_of[place] for samples_of in samples])

    def _enter(self, session: DeviceSession, library: Library, judge: Judge) -> TrialFailure | None:
        """Load and check a library; returns why it failed. Raises ``DeviceLost``, or ``ChildFailed`` if canceled."""
        request = EnterRequest(shape=library[0], cold_cache=PROTOCOLS[self._task.order.protocol_id].cold_cache)
        outputs = OutputIntake([self._task.layout] * INPUT_SETS)
        with in_memory(library[1]) as held:
            limit_s = 3 * self._task.deadlines.run_s(None, INPUT_SETS - 1)
            try:
                answer = session.ask(request, [held.descriptor], limit_s, self._on_wait, outputs)
            except DeviceLost:
                raise
            except ChildFailed as failed:
                if failed.failure.reason is FailureReason.CANCELED:
                    raise
                return failed.failure
            broken = answer.failure if isinstance(answer, Entered) else _out_of_turn(answer.kind)
            if broken is not None:
                return TrialFailure(reason=broken.reason, message=broken.message[:4000])
            if not all(outputs.holds(number) for number in range(INPUT_SETS)):
                message = "The child that holds the device did not send all outputs."
                return TrialFailure(reason=FailureReason.CRASH, message=message)
        error = judge([(number, outputs.arrays(number)) for number in range(INPUT_SETS)])
        if error > 1.0:
            return self._task.wrong_result(error).failure
        return None

    def _rounds(self, session: DeviceSession, entrants: int) -> list[tuple[tuple[float, ...], ...]]:
        rounds: list[tuple[tuple[float, ...], ...]] = []
        wanted_s = self._order.seconds_each * entrants
        spent_s = 0.0
        while True:
            began_s = time.monotonic()
            answer = session.ask(RoundRequest(turn=len(rounds)), (), _ROUND_S, self._on_wait)
            spent_s += time.monotonic() - began_s
            if not isinstance(answer, Round) or len(answer.samples_s) != entrants or not all(answer.samples_s):
                broken = answer if isinstance(answer, Broken) else _out_of_turn(answer.kind)
                raise ChildFailed(TrialFailure(reason=broken.reason, message=broken.message[:4000]))
            if not self._on_wait():  # a round ends before the wait for its answer would ask
                raise canceled()
            rounds.append(answer.samples_s)
            of_each = ([one[place] for one in rounds] for place in range(entrants))
            if suffice(of_each, spent_s, wanted_s):
                return rounds

    def _end_with(self, alive: dict[int, Library], failure: TrialFailure) -> None:
        for index in alive:
            self._results.setdefault(index, Failed(failure=failure))


def _out_of_turn(kind: str) -> Broken:
    return Broken(reason=FailureReason.CRASH, message=f"The child sent an unexpected {kind!r}.")
