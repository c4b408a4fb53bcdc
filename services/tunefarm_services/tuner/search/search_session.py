"""The session of a search child: dispatches its candidates, commits results and returns them to it."""

import queue
import selectors
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from tunefarm_sandbox.channel.channel import Channel, ChannelClosed
from tunefarm_sandbox.fork_server.fork_server import Child
from tunefarm_schemas.bad_input import UnverifiableFunction
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import Candidate, Dispatch, Failed, Measurement
from tunefarm_services.store.jobs.event_repository import EventRepository
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.trials.measurement_repository import MeasurementRepository
from tunefarm_services.store.trials.trial_repository import TrialRepository
from tunefarm_services.tuner.farm.attempts import ATTEMPTS, dispatch_of
from tunefarm_services.tuner.farm.ports import Farm
from tunefarm_services.tuner.search.exploration_run import ExplorationRun
from tunefarm_services.tuner.search.search_messages import (
    MeasuredMessage,
    ModelSnapshot,
    Proposed,
    SearchEnded,
    SearchReport,
    Understood,
    from_search,
)

TICK_S = 0.2
MIN_COMMIT_INTERVAL_S, MAX_COMMIT_INTERVAL_S = 0.02, 0.1
COMMIT_SHARE = 0.04
"""Maximum share of the time spent in commits. Results gather between commits, within the interval's bounds."""
DRAIN_S = 10.0


class SearchDied(Exception):
    """The search child died. The message describes how."""


class MeasuredTrials(Protocol):
    """Where a session keeps what it measures."""

    @property
    def trials(self) -> TrialRepository:
        """The trials of the explorations."""
        ...

    @property
    def measurements(self) -> MeasurementRepository:
        """The measurements of the trials."""
        ...

    @property
    def events(self) -> EventRepository:
        """The events of the jobs."""
        ...


class SearchSession:
    """Carries messages between one search child and the farm, with the store in between.

    A candidate and its dispatch are stored before they are sent to the farm, and a result is committed before it is
    acknowledged and sent to the search. Killing any process at any instant thus leaves a state that can be resumed.
    """

    def __init__(
        self,
        *,
        store: MeasuredTrials,
        farm: Farm,
        lease: Lease,
        search: Child | None,
        runs: Mapping[str, ExplorationRun],
        elapsed_s: Callable[[], float],
        on_tick: Callable[[], bool],
        on_measured: Callable[[Measurement], None] = lambda _: None,
        on_unverifiable: Callable[[UnverifiableFunction], None] | None = None,
    ) -> None:
        """``on_tick`` is called several times a second and returns False if the job must stop.

        ``on_measured`` is called for each measurement after it is stored. Without a ``search``, only the attempts
        passed to ``run`` are made. ``on_unverifiable`` is called for a function whose attempts lanes end as canceled,
        because its results cannot be checked; by default the session raises it.
        """
        self._store = store
        self._farm = farm
        self._lease = lease
        self._search = search
        self._runs = runs
        self._elapsed_s = elapsed_s
        self._on_tick = on_tick
        self._on_measured = on_measured
        self._on_unverifiable = on_unverifiable or raise_unverifiable
        self._to_search: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._in_flight: set[str] = set()
        self._uncommitted: list[Measurement] = []
        self._next_commit_s = 0.0
        self._is_abandoned = False
        self._candidates: dict[tuple[str, int], Candidate] = {}
        self._ended = SearchEnded(stop_reasons={}) if search is None else None
        self.report: SearchReport | None = None
        self.models: dict[str, ModelSnapshot] = {}
        self.stage_seconds = {"build": 0.0, "wait": 0.0, "run": 0.0}
        self.first_measured_s: float | None = None

    def run(self, unfinished: Sequence[Dispatch] = ()) -> bool:
        """Run until the search ends. Returns False if ``on_tick`` stopped it. Raises ``SearchDied``.

        ``unfinished`` are stored attempts to send first.
        """
        for dispatch in unfinished:
            if dispatch.attempt < ATTEMPTS:
                self._candidates[dispatch.candidate.exploration_id, dispatch.candidate.number] = dispatch.candidate
            self._send_to_farm(dispatch)
        with selectors.DefaultSelector() as selector:
            if self._search is None:
                return self._listen(selector)
            selector.register(self._search.channel, selectors.EVENT_READ, self._receive_search)
            threading.Thread(target=self._send_loop, args=(self._search.channel,), name="search", daemon=True).start()
            try:
                return self._listen(selector)
            finally:
                self._to_search.put(None)

    def _send_loop(self, channel: Channel) -> None:
        """Send messages to the search, in a thread: with full pipes in both directions, two writers would deadlock."""
        with suppress(ChannelClosed):  # the reading side handles the child's death
            while (message := self._to_search.get()) is not None:
                channel.send(message)

    def _listen(self, selector: selectors.BaseSelector) -> bool:
        next_tick_s = 0.0
        while self._ended is None or self._in_flight:
            for key, _ in selector.select(self._select_timeout_s(selector)):
                key.data()
            if time.monotonic() >= next_tick_s:
                next_tick_s = time.monotonic() + TICK_S
                self._repeat_suspects()
                if not self._on_tick():
                    return False
            if self._ended is not None and self._search is not None and self._search.channel in selector.get_map():
                selector.unregister(self._search.channel)
        return True

    def _select_timeout_s(self, selector: selectors.BaseSelector) -> float:
        """The time to wait for messages. Until the next commit is due, only the search is read and results gather."""
        farm_fileno = self._farm.wakeup_fileno()
        is_read = farm_fileno in selector.get_map()
        until_commit_s = self._next_commit_s - time.monotonic()
        if until_commit_s > 0 and is_read:
            selector.unregister(farm_fileno)
        elif until_commit_s <= 0 and not is_read:
            selector.register(farm_fileno, selectors.EVENT_READ, self._receive_farm)
        return min(until_commit_s, TICK_S) if until_commit_s > 0 else TICK_S

    def abandon(self) -> None:
        """Cancel everything in flight and commit the results that still arrive."""
        self._is_abandoned = True
        self._farm.cancel_all()
        deadline_s = time.monotonic() + 3.0
        while self._in_flight and time.monotonic() < deadline_s:
            self._commit(self.collect(0.1))

    def drain(self, within_s: float = DRAIN_S) -> None:
        """Commit the results of everything in flight, without canceling it, for at most ``within_s``."""
        deadline_s = time.monotonic() + within_s
        self._commit(self._uncommitted)
        while self._in_flight and time.monotonic() < deadline_s:
            self._commit(self.collect(0.1))

    def collect(self, timeout_s: float) -> list[Measurement]:
        """What the farm has measured, uncommitted. Passes on what it reports of functions that cannot be checked."""
        try:
            return self._farm.collect(timeout_s)
        except UnverifiableFunction as problem:
            self._on_unverifiable(problem)
            return []

    @property
    def device_seconds(self) -> float:
        """Lane time of the session's attempts, in seconds."""
        return self.stage_seconds["build"] + self.stage_seconds["run"]

    def _receive_search(self) -> None:
        assert self._search is not None
        try:
            message = from_search.validate_json(self._search.channel.receive())
        except ChannelClosed as closed:
            raise SearchDied(_how_it_died(self._search)) from closed
        match message:
            case Proposed(candidates=candidates):
                self._dispatch(candidates)
            case Understood(least_work=least_work):
                for exploration_id, least in least_work.items():
                    self._runs[exploration_id].least_work = least
            case SearchReport():
                self.report = message
                if message.rank_accuracy is not None:
                    self._runs[message.exploration_id].add_accuracy(message.rank_accuracy)
            case ModelSnapshot():
                self.models[message.exploration_id] = message
            case SearchEnded():
                self._ended = message
                for exploration_id, reason in message.stop_reasons.items():
                    self._runs[exploration_id].stop_reason = reason
                    self._runs[exploration_id].refusal = message.refusals.get(exploration_id, "")

    def _dispatch(self, candidates: Sequence[Candidate]) -> None:
        dispatches = [dispatch_of(candidate, fence=self._lease.fence) for candidate in candidates]
        self._store.trials.put(self._lease, candidates, dispatches)
        for candidate, dispatch in zip(candidates, dispatches, strict=True):
            self._candidates[candidate.exploration_id, candidate.number] = candidate
            run = self._runs[candidate.exploration_id]
            run.add_candidate(candidate.number, candidate.trace, candidate.origin)
            self._send_to_farm(dispatch)

    def _repeat_suspects(self) -> None:
        """Repeat once each measurement of a device that is found to have become slower.

        Lost candidates are not suspects: ``_commit`` already sends their second attempts.
        """
        self._repeat([suspect for suspect in self._farm.suspects() if not is_lost(suspect)])

    def _repeat(self, measurements: Sequence[Measurement]) -> set[tuple[str, int]]:
        """Store and send second attempts at candidates, and return which.

        Each is removed from ``_candidates``, so that one that is reported lost and suspect is repeated only once.
        """
        again = []
        for measurement in measurements:
            candidate = self._candidates.pop(_candidate_of(measurement), None)
            if candidate is not None and measurement.attempt < ATTEMPTS:
                again.append(dispatch_of(candidate, fence=self._lease.fence, attempt=measurement.attempt + 1))
        if again:
            self._store.trials.put(self._lease, [], again)
        for dispatch in again:
            self._send_to_farm(dispatch)
        return {(dispatch.candidate.exploration_id, dispatch.candidate.number) for dispatch in again}

    def _send_to_farm(self, dispatch: Dispatch) -> None:
        self._in_flight.add(dispatch.dispatch_id)
        self._farm.submit(dispatch)

    def _receive_farm(self) -> None:
        began_s = time.monotonic()
        fresh = self._commit(self.collect(0.0))
        took_s = time.monotonic() - began_s
        self._next_commit_s = began_s + min(max(MIN_COMMIT_INTERVAL_S, took_s / COMMIT_SHARE), MAX_COMMIT_INTERVAL_S)
        if fresh and self._ended is None and self._search is not None:
            self._to_search.put(MeasuredMessage(measurements=tuple(fresh)).model_dump_json().encode())

    def _commit(self, measurements: list[Measurement]) -> list[Measurement]:
        """Store measurements, and return those for the search: not those of candidates that are sent again.

        Accounts all results before it asks the store again, which may be away: committed results do not come twice.
        """
        if not measurements:
            return []
        measurements = [self._runs[each.exploration_id].believed(each) for each in measurements]
        self._uncommitted = measurements  # if the store is unavailable, drain() commits them after the outage
        fresh = self._store.measurements.commit(self._lease, measurements)
        self._uncommitted = []
        self._farm.acknowledge(measurements)
        for measurement in measurements:
            self._in_flight.discard(measurement.dispatch_id)
        lost = [each for each in fresh if is_lost(each)]
        ended = [each for each in fresh if not is_lost(each)]
        improvements = [found for each in ended if (found := self._account(each)) is not None]
        again = set() if self._is_abandoned else self._repeat(lost)
        for measurement in lost:
            if _candidate_of(measurement) not in again:
                self._account(measurement)
                ended.append(measurement)
        for improvement in improvements:
            self._store.events.append(self._lease, "improved", improvement)
        return ended

    def _account(self, measurement: Measurement) -> dict[str, object] | None:
        """Count a measurement. Returns what to report of it if it is the fastest so far."""
        run = self._runs[measurement.exploration_id]
        self._on_measured(measurement)
        elapsed_s = self._elapsed_s()
        stages = measurement.stages
        self.stage_seconds["build"] += stages.build_s
        self.stage_seconds["wait"] += stages.wait_s
        self.stage_seconds["run"] += stages.run_s
        if self.first_measured_s is None and not isinstance(measurement.result, Failed):
            self.first_measured_s = elapsed_s
        if not run.measured(measurement, elapsed_s) or run.best_latency_s is None:
            return None
        self._farm.set_incumbent(run.exploration_id, run.best_latency_s)
        return {
            "task": run.task.name,
            "latency_s": run.best_latency_s,
            "trials": run.trials_of_job,
            "elapsed_s": elapsed_s,
        }


def raise_unverifiable(problem: UnverifiableFunction) -> None:
    """End the session."""
    raise problem


def _candidate_of(measurement: Measurement) -> tuple[str, int]:
    return measurement.exploration_id, measurement.candidate_number


def is_lost(measurement: Measurement) -> bool:
    """Whether a first attempt ended with the loss of its device, which the candidate need not have caused."""
    result = measurement.result
    lost = isinstance(result, Failed) and result.failure.reason is FailureReason.DEVICE_LOST
    return lost and measurement.attempt < ATTEMPTS


def _how_it_died(search: Child) -> str:
    ended = search.exit(2.0)
    how = "closed its channel" if ended is None else f"{ended.kind} {ended.code}"
    return f"the search process {how}: {search.output()[-2000:]}".strip()
