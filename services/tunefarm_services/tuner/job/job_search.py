"""Runs the search of one job in confined children, and replaces one that dies."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.fork_server import Child, ForkFailed, ForkServer
from tunefarm_schemas.tuning.job import Effort, JobOutcome, JobState, StopReason
from tunefarm_schemas.tuning.measurement import Measurement
from tunefarm_services.store.jobs.job_repository import JobRepository
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
"""Strategies whose end means that the space is exhausted. Others just run out of proposals."""
SEARCH_ENTRY = "tunefarm_services.tuner.search.search_child:main"
SEARCH_MEMORY_BYTES = 16 << 30
"""Address space of a search child. Most of it is the shared libraries of the fork server, which cost nothing."""


def end_if_poisoned(jobs: JobRepository, lease: Lease, deaths: int, message: str) -> bool:
    """Finish a job as failed and return True if it has too many ``deaths``. Raises FenceLost, StoreUnavailable."""
    if deaths < MAX_DEATHS:
        return False
    jobs.set_state(lease, JobState.FINISHED, JobOutcome.FAILED, f"poisoned: {message}")
    return True


class JobSearch:
    """Searches the explorations of a job in one child at a time, and starts a new child after each death.

    The store has everything that a dead child proposed and learned from, so its successor loses only cost-model state.
    A module that kills its search in a TVM pass would do so forever: after ``MAX_DEATHS`` the job fails as poisoned.
    """

    def __init__(
        self,
        store: Store,
        farm: Farm,
        fork_server: ForkServer,
        run: JobRun,
        on_search_child: Callable[[Child | None], None],
        on_measured: Callable[[Measurement], None],
    ) -> None:
        """``on_search_child`` and ``on_measured`` are those of ``Supervisor``."""
        self._store = store
        self._farm = farm
        self._fork_server = fork_server
        self._run = run
        self._on_search_child = on_search_child
        self._on_measured = on_measured

    def repeat_unfinished(self) -> None:
        """Repeat the attempts that a killed run left unfinished, before the search loads the known trials."""
        unfinished = unfinished_attempts(self._store.trials, self._run)
        if not unfinished:
            return
        self._open_tasks()
        session = self._session(None, None)
        if not session.run(unfinished):
            session.abandon()
        self._load_trials()

    def search(self, left: Effort | None) -> None:
        """Search until the effort ``left`` is spent. Opens every exploration on the farm."""
        reason = self._run.reason_to_end_search()
        if left is not None and reason is not None:
            self._run.set_stop_reason(reason)
            left = None
        if left is None:
            self._open_tasks()
        is_first = True
        while left is not None:
            with self._child(left) as child:
                if is_first:  # the child already prepares its first proposals
                    self._open_tasks()
                is_first = False
                left = self._run_child(child, left)

    def _run_child(self, child: Child, left: Effort) -> Effort | None:
        """Run a search child until it ends. Returns the remaining effort if it died, else None."""
        began_s = time.monotonic()
        session = self._session(child, left.device_seconds)
        death: SearchDied | None = None
        try:
            if session.run():
                self._keep_models(session)
            else:
                session.abandon()
                self._run.set_stop_reason(self._run.reason_to_end_search(left.device_seconds))
        except SearchDied as died:
            session.abandon()
            death = died
        self._book(time.monotonic() - began_s)
        return None if death is None else self._after(death)

    def _after(self, death: SearchDied) -> Effort | None:
        if not self._fork_server.alive:  # the child died with its fork server: not this job's fault, so not counted
            raise ForkFailed("server_lost", "the process that forks all others is gone")
        lease = self._run.lease
        deaths = self._store.jobs.count_search_death(lease)
        self._store.events.append(lease, "search_died", {"message": str(death), "deaths": deaths})
        if end_if_poisoned(self._store.jobs, lease, deaths, f"its search died {deaths} times. {death}"):
            self._run.watch.halt = JobState.FINISHED
            return None
        self._load_trials()
        return effort_left(self._run.job.spec, self._run.explorations)

    @contextmanager
    def _child(self, effort: Effort) -> Iterator[Child]:
        """A search child that may spend ``effort``, killed when the block ends. Raises ForkFailed."""
        order = search_order(self._store, self._run, effort, self._farm.room())
        self._run.start_search(order.strategy, effort)
        for _ in range(READY_TRIES):  # loading TVM may take longer than a lease; afterwards fork() reports the problem
            if self._fork_server.ready(READY_S) or not self._fork_server.alive:
                break
            self._run.watch.keep_lease()
        child = self._fork_server.fork(
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
        """``device_seconds`` is the lane time that it may spend; None if unlimited."""
        run = self._run

        def poll() -> bool:
            return run.poll("searching") and run.reason_to_end_search(device_seconds) is None

        run.search_started_s = run.search_started_s or run.elapsed_s()
        return run.begin_session(self._store, self._farm, poll, self._on_measured, search)

    def _open_tasks(self) -> None:
        for each in self._run.explorations:
            self._run.watch.keep_lease()
            self._farm.open_task(each.measure_task())

    def _load_trials(self) -> None:
        for each in self._run.explorations:
            load_trials(self._store.explorations, self._store.trials, self._run.lease, each)

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
