"""Queries that must stay fast with millions of rows use an index."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from sqlalchemy import event
from sqlalchemy.dialects import sqlite

from tests.store.sample import put_job, record_key
from tunefarm_schemas.tuning.record import RecordStatus
from tunefarm_services.store import Store
from tunefarm_services.store.jobs import lease_repository
from tunefarm_services.store.records import best_record_repository
from tunefarm_services.store.trials import point_repository, sample_repository, trial_repository


def plan_of(path: Path, statement, **values: object) -> str:
    compiled = statement.compile(dialect=sqlite.dialect(paramstyle="named"))
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(f"EXPLAIN QUERY PLAN {compiled}", dict(compiled.params) | values).fetchall()
    return "\n".join(row[3] for row in rows)


def test_exact_match_reads_one_row_of_best_records(store: Store, tmp_path: Path):
    values = {"tenant": "local"} | record_key().model_dump()
    plan = plan_of(tmp_path / "tunefarm.db", best_record_repository.EXACT, **values)
    assert "SEARCH best_records USING INDEX sqlite_autoindex_best_records_1" in plan
    assert "abi=?" in plan
    assert "SEARCH tuning_records USING INDEX sqlite_autoindex_tuning_records_1" in plan
    assert "SCAN" not in plan


def test_matches_on_other_devices_use_latency_index(store: Store, tmp_path: Path):
    values = {"tenant": "local", "row_limit": 8} | record_key().model_dump()
    verified = plan_of(tmp_path / "tunefarm.db", best_record_repository.VERIFIED_ELSEWHERE, **values)
    claimed = plan_of(tmp_path / "tunefarm.db", best_record_repository.CLAIMED, **values)
    assert "USING INDEX ix_best_records_workload" in verified
    assert "USING INDEX ix_tuning_records_workload" in claimed
    assert "SCAN best_records" not in verified
    assert "SCAN tuning_records" not in verified + claimed
    assert "TEMP B-TREE" not in claimed


def test_similar_matches_use_family_index(store: Store, tmp_path: Path):
    values = {"tenant": "local", "row_limit": 8, "relative_limit": 32} | record_key().model_dump()
    plan = plan_of(tmp_path / "tunefarm.db", best_record_repository.SIMILAR, **values)
    assert plan.count("USING COVERING INDEX ix_workloads_family") == 2
    assert "SCAN tuning_records" not in plan
    assert "SCAN best_records" not in plan


def test_unverified_records_use_partial_index(store: Store, tmp_path: Path):
    store.records.page("local", status=RecordStatus.RETRACTED)
    query = "SELECT * FROM tuning_records WHERE tenant = ? AND status = ? AND status != 'verified' ORDER BY record_id"
    with closing(sqlite3.connect(tmp_path / "tunefarm.db")) as connection:
        rows = connection.execute(f"EXPLAIN QUERY PLAN {query}", ("local", "retracted")).fetchall()
    assert [row[3] for row in rows] == [
        "SEARCH tuning_records USING INDEX ix_tuning_records_unverified (tenant=? AND status=?)"
    ]


def test_trials_and_queue_of_tenant_are_not_scanned(store: Store, tmp_path: Path):
    put_job(store)
    trials = plan_of(tmp_path / "tunefarm.db", trial_repository.TRIALS, tenant="local", exploration_id="e")
    queue = plan_of(tmp_path / "tunefarm.db", lease_repository.FREE, tenant="local", job_id="j", now_s=0.0)
    assert "SCAN" not in trials + queue


def test_charts_of_many_trials_use_partial_indexes(store: Store, tmp_path: Path):
    values = {"tenant": "local", "exploration_id": "e", "width": 9, "row_limit": 9}
    fastest = plan_of(tmp_path / "tunefarm.db", sample_repository.FASTEST, **values)
    assert fastest.startswith("SEARCH trials USING COVERING INDEX ix_trials_timed")
    assert "TEMP B-TREE" not in fastest
    improvements = plan_of(tmp_path / "tunefarm.db", point_repository.FASTEST, **values)
    failures = plan_of(tmp_path / "tunefarm.db", point_repository.FAILURES, **values)
    assert "USING COVERING INDEX ix_trials_timed" in improvements
    assert "USING COVERING INDEX ix_trials_failed" in failures


def plan_of_asking(store: Store, path: Path, ask: Callable[[], object], words: str) -> list[str]:
    """The query plan of the executed statement that contains ``words``."""
    asked: list[tuple[str, tuple[object, ...]]] = []
    event.listen(
        store.database._engine,
        "before_cursor_execute",
        lambda _connection, _cursor, statement, parameters, *_: asked.append((statement, parameters)),
    )
    ask()
    statement, parameters = next(each for each in asked if words in each[0])
    with closing(sqlite3.connect(path)) as connection:
        return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]


def test_queue_of_all_tenants_skips_finished_jobs_by_index(store: Store, tmp_path: Path):
    put_job(store)
    plan = plan_of_asking(
        store, tmp_path / "tunefarm.db", lambda: store.queue.lease_next("tuner", 60.0), words="tenant_shares"
    )
    jobs = [step for step in plan if step.startswith(("SCAN jobs", "SEARCH jobs"))]
    assert jobs
    assert all(step.endswith("USING INDEX ix_jobs_open") for step in jobs)


def test_overdue_jobs_use_deadline_index(store: Store, tmp_path: Path):
    plan = plan_of_asking(
        store, tmp_path / "tunefarm.db", lambda: store.queue.lease_overdue("tuner", 60.0), words="deadline_at"
    )
    assert plan[0].startswith("SEARCH jobs USING INDEX ix_jobs_deadline")
    assert not [step for step in plan if "TEMP B-TREE" in step]
