"""The search of one job, in confined children that may die."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.fork_server import Child, ForkFailed, ForkServer
from tunefarm_schemas.tuning.job import Effort, JobOutcome, JobState, StopReason
from tunefarm_schemas.tuning.measurement import Measurement
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.store import Store
from tunefarm_services.tuner.farm.ports import Farm
from tunefarm_services.tuner.job.effort_left import effort_left
from tunefarm_services.tuner.job.job_run import JobRun
from tunefarm_services.tuner.job.search_orders import load_trials, search_order, unfinished_attempts
from tunefarm_services.tuner.search.search_session import SearchDied, SearchSession

MAX_DEATHS = 3
READY_S, READY_TRIES = 1.0, 60
STRATEGIES_THAT_SEE_ALL = ("evolutionary", "random")
"""Others end when they have nothing more to propose, which says nothing about the space."""
SEARCH_ENTRY = "tunefarm_services.tuner.search.search_child:main"
SEARCH_MEMORY_BYTES = 16 << 30
"""Address space of a search child. Most of it is the shared libraries of the zygote, which cost nothing."""


def end_if_poisoned(store: Store, lease: Lease, deaths: int, message: str) -> bool:
    """Finish a job as failed if its ``deaths`` are too many; whether they are. Raises FenceLost, StoreUnavailable."""
    if deaths < MAX_DEATHS:
        return False
    store.jobs.set_state(lease, JobState.FINISHED, JobOutcome.FAILED, f"poisoned: {message}")
    return True


class JobSearch:
    """Searches the explorations of a job, one child after the other: a new one follows each that died."""

    def __init__(
        self,
        store: Store,
        farm: Farm,
        zygote: ForkServer,
        run: JobRun,
        on_search_child: Callable[[Child | None], None],
        on_measured: Callable[[Measurement], None],
    ) -> None:
        """``on_search_child`` and ``on_measured`` are as ``Supervisor`` says."""
        self._store = store
        self._farm = farm
        self._zygote = zygote
        self._run = run
        self._on_search_child = on_search_child
        self._on_measured = on_measured

    def repeat_unfinished(self) -> None:
        """Make the second attempts that a killed run left open, before the search looks at what is known."""
        unfinished = unfinished_attempts(self._store, self._run)
        if not unfinished:
            return
        self._open_tasks()
        session = self._session(None, None)
        if not session.run(unfinished):
            session.abandon()
        self._load_trials()

    def search(self, left: Effort | None) -> None:
        """Search as far as ``left`` allows; afterwards the farm knows every exploration."""
        reason = self._run.reason_to_search_no_further()
        if left is not None and reason is not None:
            self._run.stopped_by(reason)
            left = None
        if left is None:
            self._open_tasks()
        is_first = True
        while left is not None:
            with self._child(left) as child:
                if is_first:  # beside the child, which proposes meanwhile
                    self._open_tasks()
                is_first = False
                left = self._until_its_end(child, left)

    def _until_its_end(self, child: Child, left: Effort) -> Effort | None:
        """One search child's life; the effort that is left when it died before its end."""
        began_s = time.monotonic()
        session = self._session(child, left.device_seconds)
        death: SearchDied | None = None
        try:
            if session.run():
                self._keep_models(session)
            else:
                session.abandon()
                self._run.stopped_by(self._run.reason_to_search_no_further(left.device_seconds))
        except SearchDied as died:
            session.abandon()
            death = died
        self._book(time.monotonic() - began_s)
        return None if death is None else self._after(death)

    def _after(self, death: SearchDied) -> Effort | None:
        if not self._zygote.alive:  # then it is no fault of this job's
            raise ForkFailed("server_lost", "the process that forks all others is gone")
        lease = self._run.lease
        deaths = self._store.jobs.count_search_death(lease)
        self._store.events.append(lease, "search_died", {"message": str(death), "deaths": deaths})
        if end_if_poisoned(self._store, lease, deaths, f"its search died {deaths} times. {death}"):
            self._run.watch.halt = JobState.FINISHED
            return None
        self._load_trials()
        return effort_left(self._run.job.spec, self._run.explorations)

    @contextmanager
    def _child(self, effort: Effort) -> Iterator[Child]:
        """A search that may spend ``effort``; it is ended with the block. Raises ForkFailed."""
        order = search_order(self._store, self._run, effort, self._farm.room())
        self._run.searches(order.strategy, effort)
        for _ in range(READY_TRIES):  # after which forking says what is wrong
            if self._zygote.ready(READY_S) or not self._zygote.alive:
                break
            self._run.watch.keep_lease()
        child = self._zygote.fork(
            SEARCH_ENTRY,
            order.model_dump_json().encode(),
            limits=Limits(memory_bytes=SEARCH_MEMORY_BYTES),
            confinement=Confinement.strict(),
        )
        self._on_search_child(child)
        try:
            yield child
        finally:
            self._on_search_child(None)
            child.kill()
            child.exit(2.0)

    def _session(self, search: Child | None, device_seconds: float | None) -> SearchSession:
        """``device_seconds`` is what may be spent on lanes; None where nothing bounds it."""
        run = self._run

        def goes_on() -> bool:
            return run.goes_on("searching") and run.reason_to_search_no_further(device_seconds) is None

        run.search_started_s = run.search_started_s or run.elapsed_s()
        return run.begin_session(self._store, self._farm, goes_on, self._on_measured, search)

    def _open_tasks(self) -> None:
        for each in self._run.explorations:
            self._run.watch.keep_lease()
            self._farm.open_task(each.measure_task())

    def _load_trials(self) -> None:
        for each in self._run.explorations:
            load_trials(self._store, self._run.lease, each)

    def _book(self, seconds: float) -> None:
        each_s = seconds / len(self._run.explorations)
        sees_all = self._run.strategy in STRATEGIES_THAT_SEE_ALL
        for each in self._run.explorations:
            is_kept = sees_all or each.stop_reason is not StopReason.SPACE_EXHAUSTED
            reason = each.stop_reason if is_kept else None
            self._store.explorations.add_effort(
                self._run.lease, each.exploration_id, trials=0, seconds=each_s, stop_reason=reason
            )

    def _keep_models(self, session: SearchSession) -> None:
        for exploration_id, model in session.models.items():
            key = self._run.by_id()[exploration_id].exploration.key
            self._store.models.put(
                key.tenant, key.target_id, key.device_class_id, model.model_json.encode(), model.trials
            )
