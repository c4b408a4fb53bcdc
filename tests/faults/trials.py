"""The trials in the database before and after a fault."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tunefarm_schemas.tuning.job import Exploration
from tunefarm_schemas.tuning.measurement import Timing
from tunefarm_services.store import LOCAL_TENANT, Store
from tunefarm_services.store.trials.measured_trial import is_spent


@dataclass(frozen=True)
class Trials:
    """The trials of all explorations in the database."""

    documents: dict[tuple[str, int, int], str]
    """Measurements by exploration, candidate and attempt."""
    best_latency_s: dict[str, float]
    sent_again: list[tuple[str, int]]
    """Candidates that another owner of the job sent again although their first attempt has a valid result.

    The same owner may send them again: a result from just before the device was found slow is measured once more.
    """
    doubled: list[tuple[Any, ...]]
    """Trials that repeat a trace with a valid result."""
    search_deaths: int
    job: tuple[str, str, str | None] | None
    """Id, state and outcome of the latest job."""

    @classmethod
    def read(cls, database: Path) -> "Trials":
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30)) as connection:
            return cls.asked(lambda query: connection.execute(query).fetchall())

    @classmethod
    def asked(cls, ask: Callable[[str], Sequence[Any]]) -> "Trials":
        """Read them with ``ask``, which returns the rows of a query."""
        measured = ask("SELECT exploration_id, candidate_number, attempt, document FROM measurements")
        best = ask("SELECT exploration_id, best_latency_s FROM explorations")
        again = ask(
            "SELECT d.exploration_id, d.candidate_number FROM dispatches d JOIN dispatches first USING "
            "(tenant, exploration_id, candidate_number, purpose) JOIN measurements m USING "
            "(tenant, exploration_id, candidate_number, purpose) WHERE d.attempt = 2 AND first.attempt = 1 AND "
            "m.attempt = 1 AND d.fence > first.fence AND NOT "
            "coalesce(m.failure_reason IN ('canceled', 'device_lost', 'build_timeout', 'run_timeout'), false)"
        )
        doubled = ask(
            "SELECT t.exploration_id, candidate_number, state, failure_reason, origin FROM trials t JOIN ("
            "SELECT exploration_id, trace FROM trials WHERE NOT coalesce(failure_reason IN ('canceled', 'device_lost', "
            "'build_timeout', 'run_timeout'), false) GROUP BY exploration_id, trace HAVING count(*) > 1) d "
            "ON d.exploration_id = t.exploration_id AND d.trace = t.trace"
        )
        latest = ask("SELECT job_id, state, outcome, search_deaths FROM jobs ORDER BY created_at DESC LIMIT 1")
        job = latest[0] if latest else None
        return cls(
            documents={(row[0], row[1], row[2]): row[3] for row in measured},
            best_latency_s={row[0]: row[1] for row in best if row[1] is not None},
            sent_again=[(row[0], row[1]) for row in again],
            doubled=[tuple(row) for row in doubled],
            search_deaths=0 if job is None else job[3],
            job=None if job is None else (job[0], job[1], job[2]),
        )

    @property
    def unfinished_job(self) -> str | None:
        return self.job[0] if self.job is not None and self.job[1] != "finished" else None


def assert_kept(before: Trials, after: Trials) -> None:
    """Assert that nothing committed is lost or changed, nothing is measured twice, and the best is no worse."""
    lost = {key for key, document in before.documents.items() if after.documents.get(key) != document}
    assert not lost, f"{len(lost)} measurements are lost or changed"
    assert not after.sent_again
    assert not after.doubled
    for exploration_id, latency_s in before.best_latency_s.items():
        assert after.best_latency_s[exploration_id] <= latency_s


def assert_accounted_once(store: Store, exploration: Exploration, tenant: str = LOCAL_TENANT) -> None:
    """Assert that every candidate of ``exploration`` has one result, was sent at most twice, and counts once."""
    trials = store.trials.of_exploration(exploration.exploration_id, tenant=tenant)
    assert [trial.candidate.number for trial in trials] == list(range(len(trials)))
    measured = [trial.measurement for trial in trials if trial.measurement is not None]
    assert len(measured) == len(trials), "a trial was lost"
    assert exploration.spent.trials == sum(is_spent(measurement) for measurement in measured)
    assert all(trial.dispatch.attempt <= 2 for trial in trials)
    timed = [each.result.latency_s for each in measured if isinstance(each.result, Timing)]
    assert exploration.best_latency_s == min(timed)
