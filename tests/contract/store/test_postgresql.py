"""How the store handles failures of PostgreSQL transactions."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Connection, create_engine, text

from tests.store.sample import TENANT, bench, leased, put_job, timing
from tunefarm_services.store import Store, StoreUnavailable
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.jobs.job_repository import queue_job
from tunefarm_services.store.store_error import TransactionLost

pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


def cut_other_connections(database_url: str) -> int:
    engine = create_engine(database_url)
    with engine.connect() as connection:
        cut = connection.execute(
            text(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        ).scalar_one()
    engine.dispose()
    return cut


def test_lost_connection_rolls_back_and_is_reported(store: Store, database_url: str):
    job = put_job(store)

    def write_and_be_cut() -> None:
        with store.database.writing() as connection:
            connection.execute(text("UPDATE jobs SET priority = 99"))
            assert cut_other_connections(database_url) >= 1
            connection.execute(text("SELECT 1"))

    with pytest.raises(StoreUnavailable, match="does not answer"):
        write_and_be_cut()
    with store.database.reading() as connection:
        assert connection.execute(text("SELECT priority FROM jobs")).scalar_one() == 0
    assert leased(store).job_id == job.job_id


def test_lost_connection_is_replaced_between_calls(store: Store, database_url: str):
    holder = bench(store)
    holder.measure(0, timing(1e-3))
    assert cut_other_connections(database_url) >= 1
    assert len(holder.measure(1, timing(1e-3))) == 1
    assert store.explorations.get(TENANT, holder.exploration_id).spent.trials == 2


def test_deadlocked_transactions_both_succeed(store: Store):
    jobs = [put_job(store).job_id, put_job(store).job_id]
    meeting = threading.Barrier(2, timeout=60)
    attempts: list[str] = []

    def add(connection: Connection, job_id: str) -> None:
        connection.execute(text("UPDATE jobs SET priority = priority + 1 WHERE job_id = :id"), {"id": job_id})

    def in_order(order: list[str]) -> None:
        met = False

        @retried
        def both() -> None:
            nonlocal met
            attempts.append(order[0])
            with store.database.writing() as connection:
                add(connection, order[0])
                if not met:
                    met = True
                    meeting.wait()
                add(connection, order[1])

        both()

    threads = [threading.Thread(target=in_order, args=(order,)) for order in (jobs, jobs[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert len(attempts) >= 3, "the one that is tried again may meet the other once more"
    with store.database.reading() as connection:
        assert connection.execute(text("SELECT min(priority), max(priority) FROM jobs")).one() == (2, 2)


def test_transaction_is_given_up_after_repeated_conflicts(store: Store):
    attempts = []

    @retried
    def lose() -> None:
        attempts.append(1)
        with store.database.writing() as connection:
            connection.execute(text("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$"))

    with pytest.raises(TransactionLost):
        lose()
    assert 2 < len(attempts) < 10


def test_statement_timeout_ends_slow_statement(store: Store):
    with store.database.reading() as connection:
        assert connection.execute(text("SHOW statement_timeout")).scalar_one() == "30s"
        assert connection.execute(text("SHOW lock_timeout")).scalar_one() == "10s"
        assert connection.execute(text("SHOW idle_in_transaction_session_timeout")).scalar_one() == "1min"

    def sleep() -> None:
        with store.database.writing() as connection:
            connection.execute(text("SET LOCAL statement_timeout = 50"))
            connection.execute(text("SELECT pg_sleep(5)"))

    with pytest.raises(StoreUnavailable, match="statement timeout"):
        sleep()
    put_job(store)


def test_lease_next_skips_job_locked_by_another_tuner(store: Store, open_store: Callable[[], Store]):
    first, second = put_job(store), put_job(store)
    with store.database.writing() as connection:
        connection.execute(text("SELECT 1 FROM jobs WHERE job_id = :id FOR UPDATE"), {"id": first.job_id})
        taken = open_store().queue.lease_next("tuner", 60.0)
        assert taken is not None
        assert taken.job_id == second.job_id


def test_job_that_is_created_while_another_one_of_its_workload_is_deleted(
    store: Store, open_store: Callable[[], Store]
):
    old = put_job(store)
    with ThreadPoolExecutor(1) as pool:
        with store.database.writing() as connection:
            new = queue_job(connection, TENANT, old.spec)
            deletion = pool.submit(open_store().jobs.delete, TENANT, old.job_id)
            while not connection.execute(text("SELECT count(*) FROM pg_locks WHERE NOT granted")).scalar_one():
                assert not deletion.done(), "it waits for the row of the workload"
        deletion.result()
    assert [job.job_id for job in store.jobs.page(TENANT)] == [new.job_id]
    assert store.workloads.get(TENANT, new.spec.tasks[0].workload_id).workload_id == new.spec.tasks[0].workload_id


def test_read_transaction_sees_one_snapshot(store: Store, open_store: Callable[[], Store]):
    count = text("SELECT count(*) FROM jobs")
    with store.database.reading() as connection:
        before = connection.execute(count).scalar_one()
        put_job(open_store())
        assert connection.execute(count).scalar_one() == before
    assert store.jobs.count(TENANT) == before + 1
