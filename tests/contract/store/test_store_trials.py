"""The contract of all stores for explorations, trials and measurements, and for hostile text."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from tests.store.sample import (
    TENANT,
    bench,
    exploration_key,
    failed,
    leased,
    measurement,
    put_job,
    put_task,
    record,
    spec,
    timing,
)
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.job import JobState, StopReason
from tunefarm_schemas.tuning.measurement import Purpose, Stopped, TrialState
from tunefarm_services.store import FenceLost, NotFound, Store, StoreConflict

NEW_TRIALS = 200


class TestTrials:
    def test_trial_is_stored_with_its_measurement(self, store: Store):
        holder = bench(store)
        dispatch = holder.send(0)
        (stored,) = holder.commit(dispatch, timing(2e-3))
        (trial,) = store.trials.of_exploration(holder.exploration_id)
        assert (trial.candidate, trial.dispatch, trial.measurement) == (dispatch.candidate, dispatch, stored)
        assert trial.state is TrialState.DONE

    def test_exploration_tracks_best_latency_and_effort(self, store: Store):
        holder = bench(store)
        for number, result in enumerate(
            [timing(3e-3), timing(1e-3), timing(2e-3), Stopped(at_least_s=5e-3), failed(FailureReason.BUILD_ERROR)]
        ):
            holder.measure(number, result)
        exploration = store.explorations.get(TENANT, holder.exploration_id)
        assert (exploration.best_latency_s, exploration.spent.trials) == (1e-3, 5)

    def test_duplicate_result_is_counted_once(self, store: Store):
        holder = bench(store)
        dispatch = holder.send(0)
        result = measurement(dispatch, timing(1e-3))
        assert store.measurements.commit(holder.lease, [result, result]) == [result]
        assert store.measurements.commit(holder.lease, [result]) == []
        assert store.explorations.get(TENANT, holder.exploration_id).spent.trials == 1

    @pytest.mark.parametrize(
        "forgery",
        [
            {"nonce": "guessed"},
            {"dispatch_id": "another"},
            {"fence": 99},
            {"attempt": 2},
            {"purpose": Purpose.VERIFY},
            {"candidate_number": 7},
        ],
    )
    def test_forged_result_is_discarded(self, store: Store, forgery: dict[str, object]):
        holder = bench(store)
        genuine = measurement(holder.send(0), timing(1e-3))
        assert store.measurements.commit(holder.lease, [genuine.model_copy(update=forgery)]) == []
        assert [trial.state for trial in store.trials.of_exploration(holder.exploration_id)] == [TrialState.DISPATCHED]

    def test_result_of_previous_job_is_discarded(self, store: Store):
        holder = bench(store)
        late = measurement(holder.send(0), timing(1e-3))
        store.leases.release(holder.lease)
        put_job(store)
        other = store.leases.acquire(TENANT, store.jobs.page(TENANT, limit=1)[0].job_id, "other", 60)
        assert other is not None
        assert other.fence == holder.lease.fence
        assert store.explorations.hold(other, holder.exploration_id)
        assert store.measurements.commit(other, [late]) == []

    def test_candidate_number_keeps_its_trace(self, store: Store):
        holder = bench(store)
        holder.send(0)
        with pytest.raises(StoreConflict, match="trial"):
            store.trials.put(holder.lease, [holder.candidate(0, trace="another")], [])

    def test_attempt_is_sent_once(self, store: Store):
        holder = bench(store)
        holder.send(0)
        with pytest.raises(StoreConflict, match="attempt"):
            holder.send(0)

    def test_batch_is_stored_atomically(self, store: Store):
        holder = bench(store)
        holder.send(0)
        with pytest.raises(StoreConflict):
            store.trials.put(holder.lease, [holder.candidate(1)], [holder.dispatch(1), holder.dispatch(0)])
        assert [trial.candidate.number for trial in store.trials.of_exploration(holder.exploration_id)] == [0]

    def test_trial_lost_with_its_owner_is_sent_again(self, store: Store):
        holder = bench(store)
        lost = holder.send(0)
        successor = holder.taken_over()
        assert successor.commit(lost, timing(1e-3)) == []
        (trial,) = store.trials.of_exploration(successor.exploration_id)
        assert (trial.state, trial.dispatch.attempt, trial.measurement) == (TrialState.DISPATCHED, 1, None)
        assert len(successor.commit(successor.send(0, attempt=2), timing(1e-3))) == 1
        assert store.explorations.get(TENANT, successor.exploration_id).spent.trials == 1

    def test_trial_lost_twice_is_a_crash(self, store: Store):
        successor = bench(store)
        successor.send(0)
        successor = successor.taken_over()
        successor.send(0, attempt=2)
        successor = successor.taken_over()
        (trial,) = store.trials.of_exploration(successor.exploration_id)
        assert trial.state is TrialState.DONE
        assert trial.measurement is not None
        assert trial.measurement.result.failure.reason is FailureReason.CRASH
        assert store.explorations.get(TENANT, successor.exploration_id).spent.trials == 1
        successor = successor.taken_over()
        assert store.explorations.get(TENANT, successor.exploration_id).spent.trials == 1

    @pytest.mark.parametrize("reason", [FailureReason.CANCELED, FailureReason.DEVICE_LOST])
    def test_infrastructure_failure_counts_after_second_attempt(self, store: Store, reason: FailureReason):
        holder = bench(store)
        holder.measure(0, failed(reason))
        assert store.explorations.get(TENANT, holder.exploration_id).spent.trials == 0
        again = holder.send(0, attempt=2)
        assert [trial.state for trial in store.trials.of_exploration(holder.exploration_id)] == [TrialState.DISPATCHED]
        holder.commit(again, failed(reason))
        assert store.explorations.get(TENANT, holder.exploration_id).spent.trials == 1

    @pytest.mark.parametrize("reason", [FailureReason.CANCELED, FailureReason.DEVICE_LOST, FailureReason.CRASH])
    def test_failed_second_attempt_keeps_first_timing(self, store: Store, reason: FailureReason):
        holder = bench(store)
        holder.measure(0, timing(1e-3))
        holder.commit(holder.send(0, attempt=2), failed(reason))
        (trial,) = store.trials.of_exploration(holder.exploration_id)
        assert (trial.state, trial.measurement.result) == (TrialState.DONE, timing(1e-3))
        assert store.trials.page(TENANT, holder.exploration_id, failed_only=True) == []

    def test_second_result_replaces_the_first(self, store: Store):
        holder = bench(store)
        for number, result in enumerate([timing(2e-3), failed(FailureReason.WRONG_RESULT)]):
            holder.measure(number, timing(1e-3))
            holder.commit(holder.send(number, attempt=2), result)
            assert store.trials.of_exploration(holder.exploration_id)[number].measurement.result == result

    def test_timing_survives_owner_of_second_attempt(self, store: Store):
        holder = bench(store)
        holder.measure(0, timing(1e-3))
        holder.send(0, attempt=2)
        successor = holder.taken_over()
        (trial,) = store.trials.of_exploration(successor.exploration_id)
        assert (trial.state, trial.measurement.result) == (TrialState.DONE, timing(1e-3))

    def test_late_first_attempt_does_not_replace_the_second(self, store: Store):
        holder = bench(store)
        first, second = holder.send(0), holder.send(0, attempt=2)
        holder.commit(second, timing(1e-3))
        assert len(holder.commit(first, failed(FailureReason.RUN_TIMEOUT))) == 1
        (trial,) = store.trials.of_exploration(holder.exploration_id)
        assert trial.measurement is not None
        assert trial.measurement.attempt == 2
        exploration = store.explorations.get(TENANT, holder.exploration_id)
        assert (exploration.spent.trials, exploration.best_latency_s) == (1, 1e-3)

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_second_timing_replaces_faster_first_one(self, store: Store, order: tuple[int, int]):
        holder = bench(store)
        holder.measure(1, timing(2e-3))
        results = [(holder.send(0), timing(1e-3)), (holder.send(0, attempt=2), timing(3e-3))]
        for place in order:
            holder.commit(*results[place])
        exploration = store.explorations.get(TENANT, holder.exploration_id)
        assert (exploration.spent.trials, exploration.best_latency_s) == (2, 2e-3)

    def test_verification_is_not_a_trial(self, store: Store):
        holder = bench(store)
        holder.measure(0, timing(2e-3))
        holder.commit(holder.send(0, purpose=Purpose.VERIFY), timing(1e-3))
        exploration = store.explorations.get(TENANT, holder.exploration_id)
        assert (exploration.spent.trials, exploration.best_latency_s) == (1, 2e-3)

    def test_failed_verification_removes_best_latency(self, store: Store):
        holder = bench(store)
        holder.measure(0, timing(2e-3))
        holder.measure(1, timing(1e-3))
        holder.commit(holder.send(1, purpose=Purpose.VERIFY), failed(FailureReason.WRONG_RESULT))
        assert store.explorations.get(TENANT, holder.exploration_id).best_latency_s == 2e-3

    def test_trials_of_unknown_exploration_are_an_error(self, store: Store):
        with pytest.raises(NotFound):
            store.trials.of_exploration("none")

    def test_concurrent_threads_write_trials(self, store: Store):
        holder = bench(store)

        def work(numbers: range) -> None:
            for number in numbers:
                holder.measure(number, timing(1e-3 * (1 + number)))
                store.leases.renew(holder.lease, 60)

        with ThreadPoolExecutor(2) as threads:
            list(threads.map(work, (range(0, 40, 2), range(1, 40, 2))))
        exploration = store.explorations.get(TENANT, holder.exploration_id)
        assert (exploration.spent.trials, exploration.best_latency_s) == (40, 1e-3)


class TestHostileText:
    TEXT = "'; DROP TABLE jobs; --/../../etc/passwd\n${HOME}\u202e\U0001f600"

    def test_hostile_text_is_stored_verbatim(self, store: Store, open_store: Callable[[], Store]):
        job = put_job(store, **{self.TEXT: self.TEXT})
        lease = leased(store, job, owner=self.TEXT)
        store.jobs.set_state(lease, JobState.RUNNING, message=self.TEXT)
        store.events.append(lease, self.TEXT, {self.TEXT: self.TEXT})
        store.records.put(TENANT, lease, record(self.TEXT, 1e-3).model_copy(update={"source": self.TEXT}))
        store.records.retract(TENANT, self.TEXT, self.TEXT)
        fresh = open_store()
        assert fresh.jobs.get(TENANT, job.job_id).message == self.TEXT
        assert fresh.jobs.page(TENANT, labels={self.TEXT: self.TEXT})[0].job_id == job.job_id
        assert fresh.records.get(TENANT, self.TEXT).status_reason == self.TEXT
        assert fresh.events.of_job(TENANT, job.job_id)[-1].data == {self.TEXT: self.TEXT}
        for look in (
            fresh.workloads.get,
            fresh.jobs.get,
            fresh.artifacts.get,
            fresh.explorations.get,
            fresh.records.get,
        ):
            with pytest.raises(NotFound):
                look(TENANT, f"{self.TEXT}x")

    def test_integer_out_of_range_is_bad_input(self, store: Store):
        with pytest.raises(BadInput):
            store.jobs.create(TENANT, spec(put_task(store), priority=2**80))
        assert store.jobs.page(TENANT) == []


@pytest.mark.parametrize("database_url", ["new postgresql"], indirect=True)
def test_trial_queries_do_not_slow_down_with_trials(store: Store):
    """The planner has no statistics for a young exploration, and must read single rows all the same.

    In a database of its own, where no autovacuum has left statistics and no closed connection still adds its reads.
    """
    holder = bench(store)
    with store.database.writing() as connection:
        for table in ("trials", "dispatches", "measurements"):  # with statistics it reads small tables whole
            connection.execute(text(f"ALTER TABLE {table} SET (autovacuum_enabled = false)"))
    before = rows_fetched(store)
    for number in range(NEW_TRIALS):
        holder.measure(number, timing(1e-3))
    assert rows_fetched(store) - before < 15 * NEW_TRIALS


def rows_fetched(store: Store) -> int:
    """Rows of trials, dispatches and measurements fetched by all statements so far."""
    with store.database.reading() as connection:
        if connection.dialect.server_version_info < (15,):
            pytest.skip("its figures come late")
        connection.execute(text("SELECT pg_stat_force_next_flush()"))
    with store.database.reading() as connection:
        return connection.execute(
            text(
                "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables "
                "WHERE relname IN ('trials', 'dispatches', 'measurements')"
            )
        ).scalar_one()


class TestExplorations:
    def test_same_key_opens_same_exploration(self, store: Store):
        put_job(store), put_job(store)
        first, second = leased(store), leased(store)
        opened = store.explorations.open(first, exploration_key())
        assert store.explorations.open(second, exploration_key()) == opened
        assert store.explorations.get(TENANT, opened.exploration_id) == opened
        assert store.explorations.of_workload(TENANT, exploration_key().workload_id) == [opened]

    def test_unknown_workload_cannot_be_explored(self, store: Store):
        put_job(store)
        lease = leased(store)
        with pytest.raises(NotFound, match="workload"):
            store.explorations.open(lease, exploration_key("never stored"))

    def test_second_job_waits_for_exploration(self, store: Store):
        holder = bench(store)
        put_job(store)
        waiting = leased(store)
        assert not store.explorations.hold(waiting, holder.exploration_id)
        with pytest.raises(FenceLost, match="exploration"):
            store.explorations.add_effort(waiting, holder.exploration_id, 0, 1.0, None)
        store.leases.release(holder.lease)
        assert store.explorations.hold(waiting, holder.exploration_id)
        assert store.explorations.hold(waiting, holder.exploration_id)

    def test_exploration_is_free_after_its_lease_expires(self, store: Store):
        holder = bench(store)
        put_job(store)
        successor = leased(store)
        assert store.leases.renew(holder.lease, 0) is not None
        assert store.explorations.hold(successor, holder.exploration_id)
        with pytest.raises(FenceLost):
            holder.send(0)

    def test_effort_adds_up_with_stop_reason(self, store: Store):
        holder = bench(store)
        store.explorations.add_effort(holder.lease, holder.exploration_id, 0, 1.5, None)
        stopped = store.explorations.add_effort(holder.lease, holder.exploration_id, 2, 2.5, StopReason.PLATEAU)
        assert (stopped.spent.trials, stopped.spent.seconds) == (2, 4.0)
        assert store.explorations.get(TENANT, holder.exploration_id).spent.stop_reason is StopReason.PLATEAU

    def test_new_trials_reset_is_verified(self, store: Store):
        holder = bench(store)
        assert store.explorations.get(TENANT, holder.exploration_id).is_verified, "nothing was tried"
        assert not store.explorations.add_effort(holder.lease, holder.exploration_id, 2, 1.0, None).is_verified
        store.explorations.set_verified(holder.lease, holder.exploration_id)
        assert store.explorations.get(TENANT, holder.exploration_id).is_verified
        assert not store.explorations.add_effort(holder.lease, holder.exploration_id, 1, 1.0, None).is_verified
