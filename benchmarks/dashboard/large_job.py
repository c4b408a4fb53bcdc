"""A job with any number of trials, stored within seconds."""

import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final

from benchmarks.load.synthetic_jobs import SyntheticJobs
from benchmarks.store.synthetic_records import TENANT, SyntheticRecords
from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.frozen import Frozen, canonical_json, digest
from tunefarm_schemas.tuning.job import ExplorationKey, JobOutcome, JobState
from tunefarm_schemas.views.jobs.summary import Improvement, JobSummary, Progress, TaskSummary
from tunefarm_services.settings import Settings
from tunefarm_services.store import Lease, Store

CHUNK_TRIALS: Final = 20_000
TRIALS_PER_S: Final = 20.0
EVENT_INTERVAL_S: Final = 2.0
"""A job writes one event of progress in this time."""
_LEASE_S: Final = 3600.0
_FIRST_S: Final = 5e-3
_BEST_S: Final = 8e-4
_COPIED: Final = ("trials", "dispatches", "measurements")


class LargeJob(Frozen):
    """A job and its only exploration."""

    job_id: str
    exploration_id: str


def put_large_job(store: Store, settings: Settings, number: int, trials: int) -> LargeJob:
    """Store a finished job with ``trials`` trials."""
    job, lease = put_running_job(store, settings, number, trials)
    _finish(store, lease, job.exploration_id, trials)
    store.leases.release(lease)
    return job


def put_running_job(store: Store, settings: Settings, number: int, trials: int) -> tuple[LargeJob, Lease]:
    """Store a job with ``trials`` trials, and events of progress as the search writes them; returns its lease.

    The rows are copies of one trial that the store's port wrote. They are inserted into SQLite directly.
    """
    jobs = SyntheticJobs(store, SyntheticRecords(100, seed=0))
    job = jobs.queue(number, trials)
    lease = store.leases.acquire(TENANT, job.job_id, "benchmark", _LEASE_S)
    assert lease is not None
    task = job.spec.tasks[0]
    key = ExplorationKey(
        tenant=TENANT,
        workload_id=task.workload_id,
        target_id=task.target_id,
        device_class_id=digest("device class 0"),
        code_generator="tvm-0.27.0.post1+llvm-22.1",
        protocol_id=job.spec.protocol_id,
        space_id="automatic",
        abi="stable",
    )
    exploration = store.explorations.open(lease, key)
    assert store.explorations.hold(lease, exploration.exploration_id)
    store.jobs.set_state(lease, JobState.RUNNING, None, "")
    jobs.measure(lease, exploration.exploration_id, 1)
    with closing(sqlite3.connect(settings.database().removeprefix("sqlite:///"), timeout=60.0)) as file:
        _copy_trials(file, exploration.exploration_id, trials)
        _put_events(file, lease, trials)
    return LargeJob(job_id=job.job_id, exploration_id=exploration.exploration_id), lease


def progress_of(trials: int, budget: int) -> Progress:
    """The progress after ``trials`` trials."""
    return Progress(
        stage="searching",
        task_name="matmul",
        elapsed_s=trials / TRIALS_PER_S,
        trials_done=trials,
        trials_budget=budget,
        best_latency_s=best_after(trials),
        untuned_latency_s=10 * _FIRST_S,
        trials_per_s=TRIALS_PER_S,
        seconds_left=(budget - trials) / TRIALS_PER_S,
        failures={"build_error": trials // 20},
    )


def best_after(trials: int) -> float:
    """The latency of the best schedule after ``trials`` trials, in seconds: fast progress first, then slow."""
    return _BEST_S + (_FIRST_S - _BEST_S) / (1 + trials / 50)


def _copy_trials(file: sqlite3.Connection, exploration_id: str, trials: int) -> None:
    """Insert copies of the exploration's trial 0 with the numbers 1 to ``trials`` - 1."""
    file.row_factory = sqlite3.Row
    file.execute("PRAGMA synchronous = OFF")
    file.execute("PRAGMA cache_size = -200000")
    first = {
        table: dict(file.execute(f"SELECT * FROM {table} WHERE exploration_id = ?", (exploration_id,)).fetchone())
        for table in _COPIED
    }
    chance = random.Random(0)
    for begin in range(1, trials, CHUNK_TRIALS):
        numbers = range(begin, min(begin + CHUNK_TRIALS, trials))
        results = [_result(chance, number) for number in numbers]
        for table in _COPIED:
            _insert(file, table, first[table], _changes(table, numbers, results))
        file.commit()
    file.execute("ANALYZE")
    file.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _result(chance: random.Random, number: int) -> tuple[float | None, float]:
    """A latency or None for a failure, and the predicted score."""
    score = chance.random()
    if chance.random() < 0.05:
        return None, score
    return best_after(number) * (1 + chance.expovariate(0.8) * (1.2 - score)), score


def _changes(
    table: str, numbers: Sequence[int], results: Sequence[tuple[float | None, float]]
) -> Iterator[dict[str, object]]:
    for number, (latency_s, score) in zip(numbers, results, strict=True):
        changed: dict[str, object] = {"candidate_number": number}
        if table != "dispatches":
            changed |= {"latency_s": latency_s, "failure_reason": None if latency_s else "build_error"}
        if table == "trials":
            message = None if latency_s else "register pressure"
            changed |= {"module_hash": str(number), "predicted_score": score, "failure_message": message}
        if table == "dispatches":
            changed |= {"dispatch_id": f"{number:032x}", "nonce": f"{number:032x}"}
        yield changed


def _insert(
    file: sqlite3.Connection, table: str, first: dict[str, object], changes: Iterator[dict[str, object]]
) -> None:
    columns = ", ".join(first)
    marks = ", ".join("?" * len(first))
    rows = (tuple((first | each).values()) for each in changes)
    file.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", rows)


def _put_events(file: sqlite3.Connection, lease: Lease, trials: int) -> None:
    last = file.execute("SELECT last_sequence FROM jobs WHERE job_id = ?", (lease.job_id,)).fetchone()[0]
    step = int(TRIALS_PER_S * EVENT_INTERVAL_S)
    rows = [
        (lease.tenant, lease.job_id, last + place, "progress", utc_now(), canonical_json(_data(done, trials)))
        for place, done in enumerate(range(step, trials + 1, step), 1)
    ]
    file.executemany("INSERT INTO events (tenant, job_id, sequence, kind, at, data) VALUES (?, ?, ?, ?, ?, ?)", rows)
    file.execute("UPDATE jobs SET last_sequence = ? WHERE job_id = ?", (last + len(rows), lease.job_id))
    file.commit()


def _data(done: int, trials: int) -> dict[str, object]:
    data: dict[str, object] = progress_of(done, trials).model_dump(mode="json")
    return data


def _finish(store: Store, lease: Lease, exploration_id: str, trials: int) -> None:
    improvements = tuple(
        Improvement(elapsed_s=done / TRIALS_PER_S, trials=done, latency_s=best_after(done), trace="")
        for done in (2**power for power in range(20))
        if done <= trials
    )
    task = TaskSummary(
        name="matmul",
        exploration_id=exploration_id,
        best_latency_s=best_after(trials),
        untuned_latency_s=10 * _FIRST_S,
        interval_s=(best_after(trials), 1.02 * best_after(trials)),
        record_id=None,
        artifact_id=None,
        trials=trials,
        trials_in_store=trials,
        stop_reason=None,
        improvements=improvements,
        failures={"build_error": trials // 20},
        first_failure_message="register pressure",
        answered_from_store=False,
    )
    summary = JobSummary(
        job_id=lease.job_id,
        outcome=JobOutcome.SUCCEEDED,
        message="",
        tasks=(task,),
        seconds={"total": trials / TRIALS_PER_S},
    )
    store.jobs.set_state(lease, JobState.FINISHED, JobOutcome.SUCCEEDED, "")
    store.events.append(lease, "summary", summary.model_dump(mode="json"))
