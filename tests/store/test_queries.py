"""The queries that must stay fast with millions of rows follow an index."""

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy.dialects import sqlite

from tests.store.sample import put_job, record_key
from tunefarm_services.store import Store, lease_rows, record_match_rows, trial_rows


def plan_of(path: Path, statement, **values: object) -> str:
    compiled = statement.compile(dialect=sqlite.dialect(paramstyle="named"))
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(f"EXPLAIN QUERY PLAN {compiled}", dict(compiled.params) | values).fetchall()
    return "\n".join(row[3] for row in rows)


def test_the_best_record_is_the_first_of_an_index(store: Store, tmp_path: Path):
    values = {"tenant": "local"} | record_key().model_dump()
    plan = plan_of(tmp_path / "tunefarm.db", record_match_rows._EXACT, **values)
    assert "USING INDEX ix_tuning_records_best" in plan
    assert "abi=? AND status=?" in plan
    assert "SCAN" not in plan


def test_records_of_a_workload_elsewhere_follow_an_index(store: Store, tmp_path: Path):
    values = {"tenant": "local", "row_limit": 8} | record_key().model_dump()
    plan = plan_of(tmp_path / "tunefarm.db", record_match_rows._VERIFIED_ELSEWHERE, **values)
    assert "USING INDEX ix_tuning_records_workload" in plan


def test_neither_trials_nor_the_queue_are_scanned(store: Store, tmp_path: Path):
    put_job(store)
    trials = plan_of(tmp_path / "tunefarm.db", trial_rows._TRIALS, tenant="local", exploration_id="e")
    queue = plan_of(tmp_path / "tunefarm.db", lease_rows._FREE_AND_NEXT, tenant="local", now_s=0.0)
    assert "SCAN" not in trials + queue
