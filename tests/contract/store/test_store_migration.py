"""Stored data survives a downgrade to the first revision and an upgrade."""

from collections.abc import Callable

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from tests.store.sample import TENANT, bench, put_job, put_task, record, record_key, spec, timing
from tunefarm_schemas.tuning.job import JobOutcome, JobState
from tunefarm_schemas.tuning.record import MatchKind, RecordStatus
from tunefarm_services.store import DatabaseOutdated, Store
from tunefarm_services.store.database.schema_revision import NEEDED, upgrade_to
from tunefarm_services.store.tables import Table


def test_deadlines_survive_downgrade_and_upgrade(store: Store):
    hurried = store.jobs.create(TENANT, spec(put_task(store)).model_copy(update={"deadline_s": 0.01}))
    store.jobs.create(TENANT, spec(put_task(store)).model_copy(update={"deadline_s": 3600.0}))
    put_job(store)
    upgrade_to(store.database, "0003")
    upgrade_to(store.database, NEEDED)
    lease = store.queue.lease_overdue("tuner", 60.0)
    assert lease is not None
    assert lease.job_id == hurried.job_id
    assert store.queue.lease_overdue("tuner", 60.0) is None


def test_stored_data_survives_downgrade_and_upgrade(store: Store, open_store: Callable[[], Store]):
    holder = bench(store)
    holder.measure(0, timing(1e-3))
    for name, latency_s in (("slow", 3e-3), ("fast", 1e-3), ("middle", 2e-3)):
        store.records.put(TENANT, holder.lease, record(name, latency_s))
    store.records.put(TENANT, None, record("claimed", 1e-9, status=RecordStatus.CLAIMED))
    store.records.put(TENANT, None, record("elsewhere", 5e-3, key=record_key(target_id="other")))
    store.jobs.set_state(holder.lease, JobState.FINISHED, JobOutcome.SUCCEEDED)
    before = store.best_records.matches(TENANT, record_key())

    upgrade_to(store.database, "0001")
    assert store.revision() == "0001"
    with pytest.raises(DatabaseOutdated, match="tunefarm db upgrade"):
        open_store()
    with store.database.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM tasks")).scalar_one() == 1
        assert connection.execute(text("SELECT count(*) FROM tuning_records")).scalar_one() == 5
    upgrade_to(store.database, NEEDED)
    with store.database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Table.metadata) == []

    again = open_store()
    assert again.best_records.matches(TENANT, record_key()) == before
    assert [(found.record.record_id, found.match) for found in before] == [
        ("fast", MatchKind.EXACT),
        ("elsewhere", MatchKind.SAME_WORKLOAD_OTHER_DEVICE),
        ("claimed", MatchKind.SAME_WORKLOAD_OTHER_DEVICE),
    ]
    (found,) = again.explorations.of_job(TENANT, holder.lease.job_id)
    assert found.exploration_id == holder.exploration_id
    assert [job.job_id for job in again.jobs.page(TENANT, kind="tune")] == [holder.lease.job_id]
