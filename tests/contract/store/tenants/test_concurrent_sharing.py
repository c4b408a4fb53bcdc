"""What tenants of a sharing group take over while others change it. In SQLite there is one writer at a time."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, Engine, insert, select, text

from tests.contract.store.tenants.conftest import ALICE, BOB
from tests.contract.store.tenants.test_store_sharing import end, exact, measured_by_alice, take_over
from tests.contract.store.test_store_retention import A_DAY, age
from tests.store.sample import bench_of, timing
from tunefarm_schemas.tuning.job import JobOutcome, JobState
from tunefarm_schemas.tuning.record import RecordStatus
from tunefarm_services.store import NotFound, Store
from tunefarm_services.store.tables import TrialTable

pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)

# Of this database only: other tests may share the server. A lock on a transaction names no database, but whoever waits
# for it holds others that do.
_WAITING = text(
    "SELECT count(DISTINCT waiting.pid) FROM pg_locks waiting JOIN pg_locks held USING (pid) WHERE NOT waiting.granted "
    "AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


@contextmanager
def blocked(engine: Engine, statement: str) -> Iterator[Connection]:
    """Keep the lock of a statement until the block ends."""
    with engine.connect() as connection:
        connection.execute(text(statement))
        yield connection
        connection.rollback()


def wait_for_lock(connection: Connection, call: Future[object], others: int = 0) -> None:
    """Until the call has ended, or waits for a lock beside ``others`` that do."""
    while not call.done() and connection.execute(_WAITING).scalar_one() <= others:
        pass


def test_copy_that_is_being_made_is_retracted(shared: Store, open_store: Callable[[], Store], engine: Engine):
    measured_by_alice(shared)
    ours, another = bench_of(shared, BOB), open_store()
    with ThreadPoolExecutor(2) as pool:
        # The copy of the artifact follows that of the record.
        with blocked(engine, "LOCK TABLE artifacts IN EXCLUSIVE MODE") as connection:
            taking = pool.submit(take_over, ours)
            wait_for_lock(connection, taking)
            retraction = pool.submit(another.records.retract, ALICE, "best", "it is wrong")
            wait_for_lock(connection, retraction, others=1)
        assert taking.result() == 3
        retraction.result()
    assert [shared.records.get(each, "best").status for each in (ALICE, BOB)] == [RecordStatus.RETRACTED] * 2
    assert (exact(shared, ALICE), exact(shared, BOB)) == ([], [])


def test_record_that_is_being_retracted_is_not_copied(shared: Store, open_store: Callable[[], Store], engine: Engine):
    measured_by_alice(shared)
    ours, another = bench_of(shared, BOB), open_store()
    with ThreadPoolExecutor(2) as pool:
        # The event follows the change of the record.
        with blocked(engine, "LOCK TABLE events IN EXCLUSIVE MODE") as connection:
            retraction = pool.submit(another.records.retract, ALICE, "best", "it is wrong")
            wait_for_lock(connection, retraction)
            taking = pool.submit(take_over, ours)
            wait_for_lock(connection, taking, others=1)
        retraction.result()
        assert taking.result() == 3
    with pytest.raises(NotFound):
        shared.records.get(BOB, "best")


def test_trials_are_kept_while_they_are_taken_over(shared: Store, open_store: Callable[[], Store], engine: Engine):
    theirs = bench_of(shared, ALICE)
    for number in range(250):  # copied in two parts
        theirs.measure(number, timing(1e-3))
    shared.jobs.set_state(theirs.lease, JobState.FINISHED, JobOutcome.SUCCEEDED)
    end(theirs)
    age(shared)
    ours, another = bench_of(shared, BOB), open_store()
    of_first = select(TrialTable).where(TrialTable.tenant == ALICE, TrialTable.candidate_number == 0)
    with ThreadPoolExecutor(2) as pool:
        # The first part waits for a row of the same key, without any lock of its exploration.
        with blocked(engine, "SET LOCAL session_replication_role = replica") as connection:
            row = dict(connection.execute(of_first.with_only_columns(*TrialTable.__table__.columns)).mappings().one())
            connection.execute(insert(TrialTable), row | {"tenant": BOB, "exploration_id": ours.exploration_id})
            taking = pool.submit(take_over, ours)
            wait_for_lock(connection, taking)
            retention = pool.submit(another.retention.apply, A_DAY)
            wait_for_lock(connection, retention, others=1)
        assert taking.result() == 250
        assert retention.result().trials == 249
    found = shared.trials.of_exploration(ours.exploration_id, tenant=BOB)
    assert [each.candidate.number for each in found] == list(range(250))
    assert all(each.measurement is not None for each in found)
    assert shared.inspection.check().problems == ()
