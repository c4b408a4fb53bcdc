"""What every store promises about jobs, leases, explorations and trials."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.store.sample import (
    DEVICE,
    TARGET,
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
    workload,
)
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.device import Device
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.job import JobOutcome, JobState, StopReason
from tunefarm_schemas.measurement import Purpose, Stopped
from tunefarm_schemas.workload import Task
from tunefarm_services.store import FenceLost, JobRequest, NotFound, Store, StoreConflict, TrialState


class TestNouns:
    def test_a_workload_comes_back_as_it_was_put(self, store: Store):
        store.put_workload(TENANT, workload())
        assert store.workload(TENANT, workload().workload_id) == workload()

    def test_a_workload_is_found_by_its_hash_and_version(self, store: Store):
        first = store.put_workload(TENANT, workload("first"))
        store.put_workload(TENANT, workload("second"))
        assert store.workloads_with_hash(TENANT, first.structural_hash, "0.27.0") == [first]
        assert store.workloads_with_hash(TENANT, first.structural_hash, "0.28.0") == []

    def test_a_workload_whose_id_is_not_its_digest_is_refused(self, store: Store):
        with pytest.raises(ValueError, match="digest"):
            store.put_workload(TENANT, workload().model_copy(update={"workload_id": "../../etc/passwd"}))

    def test_a_target_comes_back_as_it_was_put(self, store: Store):
        store.put_target(TENANT, TARGET)
        store.put_target(TENANT, TARGET)
        assert store.target(TARGET.target_id) == TARGET

    def test_a_device_is_the_one_last_seen(self, store: Store):
        assert store.device(TENANT, DEVICE.fingerprint) is None
        store.put_device(TENANT, DEVICE)
        changed = DEVICE.device_class.model_dump() | {"cores": 4}
        moved = Device.model_validate(DEVICE.model_dump() | {"host_name": "new", "device_class": changed})
        store.put_device(TENANT, moved)
        assert store.device(TENANT, DEVICE.fingerprint) == moved
        assert store.device_class(TENANT, DEVICE.device_class.device_class_id) == DEVICE.device_class

    def test_one_tenant_sees_nothing_of_another(self, store: Store):
        task = put_task(store)
        job = put_job(store)
        store.put_device(TENANT, DEVICE)
        store.put_record(TENANT, None, record("r", 1e-3))
        for look in (
            lambda: store.workload("other", task.workload_id),
            lambda: store.target(TARGET.target_id, tenant="other"),
            lambda: store.job("other", job.job_id),
            lambda: store.record("other", "r"),
            lambda: store.create_job("other", spec(task)),
            lambda: store.request_cancel("other", job.job_id),
            lambda: store.delete_job("other", job.job_id),
            lambda: store.retract("other", "r", "mine"),
        ):
            with pytest.raises(NotFound):
                look()
        assert store.lease_job("other", job.job_id, "thief", 60) is None
        assert store.device("other", DEVICE.fingerprint) is None
        assert store.jobs("other") == store.records("other") == store.events("other", job.job_id) == []
        assert store.best_record("other", record("r", 1e-3).key) == []


class TestJobs:
    def test_a_new_job_is_queued_with_one_event(self, store: Store):
        job = put_job(store)
        assert store.job(TENANT, job.job_id) == job
        assert (job.state, job.outcome) == (JobState.QUEUED, None)
        assert [(event.sequence, event.kind) for event in store.events(TENANT, job.job_id)] == [(1, "created")]

    def test_a_job_for_an_unknown_workload_changes_nothing(self, store: Store):
        put_task(store)
        with pytest.raises(NotFound, match="workload"):
            store.create_job(TENANT, spec(Task(workload_id="none", target_id=TARGET.target_id, name="t")))
        assert store.jobs(TENANT) == []

    def test_jobs_are_listed_from_the_newest_page_by_page(self, store: Store):
        created = [put_job(store).job_id for _ in range(5)]
        newest_first = sorted(created, reverse=True)
        first = [job.job_id for job in store.jobs(TENANT, limit=2)]
        rest = [job.job_id for job in store.jobs(TENANT, limit=10, after=first[-1])]
        assert first + rest == newest_first

    def test_jobs_are_found_by_all_their_labels(self, store: Store):
        both = put_job(store, team="a", model="m")
        put_job(store, team="a")
        assert [job.job_id for job in store.jobs(TENANT, labels={"team": "a", "model": "m"})] == [both.job_id]
        assert store.jobs(TENANT, labels={"team": "a' OR '1'='1"}) == []

    def test_a_finished_job_keeps_its_outcome_and_is_no_longer_unfinished(self, store: Store):
        job = put_job(store)
        lease = leased(store)
        store.set_job_state(lease, JobState.RUNNING)
        assert [j.job_id for j in store.unfinished_jobs(TENANT)] == [job.job_id]
        done = store.set_job_state(lease, JobState.FINISHED, JobOutcome.SUCCEEDED, "fine")
        assert (done.outcome, done.message, done.finished_at is not None) == (JobOutcome.SUCCEEDED, "fine", True)
        assert store.set_job_state(lease, JobState.RUNNING) == done
        assert store.unfinished_jobs(TENANT) == []
        assert [event.data["state"] for event in store.events(TENANT, job.job_id)] == ["queued", "running", "finished"]

    def test_an_outcome_belongs_to_finished_jobs_only(self, store: Store):
        put_job(store)
        lease = leased(store)
        with pytest.raises(ValueError, match="outcome"):
            store.set_job_state(lease, JobState.FINISHED)

    def test_deaths_of_the_search_are_counted(self, store: Store):
        put_job(store)
        lease = leased(store)
        assert [store.count_search_death(lease) for _ in range(3)] == [1, 2, 3]

    def test_events_continue_after_the_last_one_seen(self, store: Store):
        job = put_job(store)
        lease = leased(store)
        for number in range(3):
            store.append_event(lease, "progress", {"number": number, "nested": {"list": [1, None]}})
        assert [event.data.get("number") for event in store.events(TENANT, job.job_id, after_sequence=2)] == [1, 2]


class TestLeases:
    def test_a_job_has_one_owner_at_a_time(self, store: Store):
        job = put_job(store)
        assert store.lease_job(TENANT, job.job_id, "first", 60) is not None
        assert store.lease_job(TENANT, job.job_id, "second", 60) is None
        assert store.lease_job(TENANT, None, "second", 60) is None

    def test_the_most_urgent_and_then_the_oldest_job_is_next(self, store: Store):
        old, urgent = put_job(store), put_job(store, priority=5)
        assert [leased(store).job_id, leased(store).job_id] == [urgent.job_id, old.job_id]

    def test_an_expired_lease_passes_on_with_a_higher_fence(self, store: Store):
        put_job(store)
        stalled = leased(store, owner="stalled", seconds=0)
        heir = leased(store, owner="heir")
        assert (heir.job_id, heir.fence) == (stalled.job_id, stalled.fence + 1)
        assert store.renew(stalled, 60) is None

    def test_an_expired_lease_that_nobody_took_can_be_renewed(self, store: Store):
        put_job(store)
        late = store.renew(leased(store, seconds=0), 60)
        assert late is not None
        assert store.lease_job(TENANT, late.job_id, "other", 60) is None

    def test_an_owner_who_wakes_up_too_late_writes_nothing(self, store: Store):
        stalled = bench(store)
        dispatch = stalled.send(0)
        store.release(stalled.lease)
        leased(store, owner="heir")
        before = store.events(TENANT, stalled.lease.job_id)
        for write in (
            lambda: store.set_job_state(stalled.lease, JobState.FINISHED, JobOutcome.FAILED),
            lambda: store.append_event(stalled.lease, "late", {}),
            lambda: store.count_search_death(stalled.lease),
            lambda: store.open_exploration(stalled.lease, exploration_key()),
            lambda: store.lease_exploration(stalled.lease, stalled.exploration_id),
            lambda: store.add_effort(stalled.lease, stalled.exploration_id, 1, 1.0, None),
            lambda: stalled.send(1),
            lambda: stalled.commit(dispatch, timing(1e-3)),
            lambda: store.put_record(TENANT, stalled.lease, record("late", 1e-9)),
        ):
            with pytest.raises(FenceLost):
                write()
        assert store.events(TENANT, stalled.lease.job_id) == before
        assert [trial.measurement for trial in store.trials(stalled.exploration_id)] == [None]
        assert store.records(TENANT) == []

    def test_a_released_lease_is_worth_nothing(self, store: Store):
        put_job(store)
        lease = leased(store)
        store.release(lease)
        store.release(lease)
        with pytest.raises(FenceLost):
            store.append_event(lease, "late", {})
        assert leased(store).fence == lease.fence + 1

    def test_two_processes_never_lease_the_same_job(self, store: Store, database_url: str, tmp_path: Path):
        jobs = {put_job(store).job_id for _ in range(30)}
        code = (
            "import sys\n"
            "from tunefarm_services.store import Store\n"
            "store = Store.open(sys.argv[1], sys.argv[2])\n"
            "while lease := store.lease_job('local', None, sys.argv[3], 60):\n"
            "    print(lease.job_id)\n"
        )
        arguments = [sys.executable, "-c", code, database_url, str(tmp_path / "blobs")]
        processes = [
            subprocess.Popen([*arguments, owner], stdout=subprocess.PIPE, text=True) for owner in ("one", "two")
        ]
        taken = [job_id for process in processes for job_id in process.communicate(timeout=60)[0].split()]
        assert sorted(taken) == sorted(jobs)


class TestRequests:
    def test_a_queued_job_is_canceled_at_once(self, store: Store):
        job = put_job(store)
        assert store.request_cancel(TENANT, job.job_id).outcome is JobOutcome.CANCELED
        assert store.request_cancel(TENANT, job.job_id).outcome is JobOutcome.CANCELED
        assert store.lease_job(TENANT, None, "tuner", 60) is None

    def test_the_owner_of_a_running_job_is_asked_to_cancel(self, store: Store):
        job = put_job(store)
        lease = leased(store)
        store.set_job_state(lease, JobState.RUNNING)
        assert store.requested(TENANT, job.job_id) is None
        for _ in range(2):
            assert store.request_cancel(TENANT, job.job_id).state is JobState.RUNNING
        store.request_pause(TENANT, job.job_id)
        assert store.requested(TENANT, job.job_id) is JobRequest.CANCEL
        store.set_job_state(lease, JobState.FINISHED, JobOutcome.CANCELED)
        assert store.requested(TENANT, job.job_id) is None
        assert sum(event.kind == "requested" for event in store.events(TENANT, job.job_id)) == 1

    def test_a_paused_job_waits_until_it_is_resumed(self, store: Store):
        job = put_job(store)
        lease = leased(store)
        store.request_pause(TENANT, job.job_id)
        assert store.requested(TENANT, job.job_id) is JobRequest.PAUSE
        assert store.set_job_state(lease, JobState.PAUSED).state is JobState.PAUSED
        store.release(lease)
        assert store.lease_job(TENANT, None, "tuner", 60) is None
        assert store.request_resume(TENANT, job.job_id).state is JobState.QUEUED
        assert leased(store).job_id == job.job_id

    def test_a_paused_job_can_be_taken_up_by_name(self, store: Store):
        job = put_job(store)
        store.request_pause(TENANT, job.job_id)
        assert leased(store, job).job_id == job.job_id

    def test_a_resume_that_overtakes_the_pause_wins(self, store: Store):
        job = put_job(store)
        lease = leased(store)
        store.request_pause(TENANT, job.job_id)
        store.request_resume(TENANT, job.job_id)
        assert store.requested(TENANT, job.job_id) is None
        assert store.set_job_state(lease, JobState.PAUSED).state is JobState.QUEUED

    def test_canceling_a_job_of_a_dead_owner_shuts_the_owner_out(self, store: Store):
        job = put_job(store)
        stalled = leased(store, seconds=0)
        store.request_cancel(TENANT, job.job_id)
        with pytest.raises(FenceLost):
            store.set_job_state(stalled, JobState.FINISHED, JobOutcome.SUCCEEDED)
        assert store.job(TENANT, job.job_id).outcome is JobOutcome.CANCELED


class TestExplorations:
    def test_the_same_key_opens_the_same_exploration(self, store: Store):
        put_job(store), put_job(store)
        first, second = leased(store), leased(store)
        opened = store.open_exploration(first, exploration_key())
        assert store.open_exploration(second, exploration_key()) == opened
        assert store.exploration(TENANT, opened.exploration_id) == opened
        assert store.explorations(TENANT, exploration_key().workload_id) == [opened]

    def test_an_unknown_workload_cannot_be_explored(self, store: Store):
        put_job(store)
        lease = leased(store)
        with pytest.raises(NotFound, match="workload"):
            store.open_exploration(lease, exploration_key("never stored"))

    def test_a_second_job_must_wait_until_the_first_lets_go(self, store: Store):
        holder = bench(store)
        put_job(store)
        waiting = leased(store)
        assert not store.lease_exploration(waiting, holder.exploration_id)
        with pytest.raises(FenceLost, match="exploration"):
            store.add_effort(waiting, holder.exploration_id, 0, 1.0, None)
        store.release(holder.lease)
        assert store.lease_exploration(waiting, holder.exploration_id)
        assert store.lease_exploration(waiting, holder.exploration_id)

    def test_an_exploration_falls_free_when_its_holder_expires(self, store: Store):
        holder = bench(store)
        put_job(store)
        heir = leased(store)
        assert store.renew(holder.lease, 0) is not None
        assert store.lease_exploration(heir, holder.exploration_id)
        with pytest.raises(FenceLost):
            holder.send(0)

    def test_effort_adds_up_and_remembers_why_it_stopped(self, store: Store):
        holder = bench(store)
        store.add_effort(holder.lease, holder.exploration_id, 0, 1.5, None)
        stopped = store.add_effort(holder.lease, holder.exploration_id, 2, 2.5, StopReason.PLATEAU)
        assert (stopped.spent.trials, stopped.spent.seconds) == (2, 4.0)
        assert store.exploration(TENANT, holder.exploration_id).spent.stop_reason is StopReason.PLATEAU


class TestTrials:
    def test_a_measured_trial_is_resumed_with_its_measurement(self, store: Store):
        holder = bench(store)
        dispatch = holder.send(0)
        (stored,) = holder.commit(dispatch, timing(2e-3))
        (trial,) = store.trials(holder.exploration_id)
        assert (trial.candidate, trial.dispatch, trial.measurement) == (dispatch.candidate, dispatch, stored)
        assert trial.state is TrialState.DONE

    def test_the_exploration_knows_its_best_and_what_was_spent(self, store: Store):
        holder = bench(store)
        for number, result in enumerate(
            [timing(3e-3), timing(1e-3), timing(2e-3), Stopped(at_least_s=5e-3), failed(FailureReason.BUILD_ERROR)]
        ):
            holder.measure(number, result)
        exploration = store.exploration(TENANT, holder.exploration_id)
        assert (exploration.best_latency_s, exploration.spent.trials) == (1e-3, 5)

    def test_a_result_is_stored_and_counted_once(self, store: Store):
        holder = bench(store)
        dispatch = holder.send(0)
        result = measurement(dispatch, timing(1e-3))
        assert store.commit_measurements(holder.lease, [result, result]) == [result]
        assert store.commit_measurements(holder.lease, [result]) == []
        assert store.exploration(TENANT, holder.exploration_id).spent.trials == 1

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
    def test_a_result_that_was_not_asked_for_is_passed_over(self, store: Store, forgery: dict[str, object]):
        holder = bench(store)
        genuine = measurement(holder.send(0), timing(1e-3))
        assert store.commit_measurements(holder.lease, [genuine.model_copy(update=forgery)]) == []
        assert [trial.state for trial in store.trials(holder.exploration_id)] == [TrialState.DISPATCHED]

    def test_a_result_of_another_job_with_the_same_fence_is_passed_over(self, store: Store):
        holder = bench(store)
        late = measurement(holder.send(0), timing(1e-3))
        store.release(holder.lease)
        put_job(store)
        other = store.lease_job(TENANT, store.jobs(TENANT, limit=1)[0].job_id, "other", 60)
        assert other is not None
        assert other.fence == holder.lease.fence
        assert store.lease_exploration(other, holder.exploration_id)
        assert store.commit_measurements(other, [late]) == []

    def test_a_number_names_one_trace_for_ever(self, store: Store):
        holder = bench(store)
        holder.send(0)
        with pytest.raises(StoreConflict, match="trial"):
            store.put_trials(holder.lease, [holder.candidate(0, trace="another")], [])

    def test_an_attempt_is_made_once(self, store: Store):
        holder = bench(store)
        holder.send(0)
        with pytest.raises(StoreConflict, match="attempt"):
            holder.send(0)

    def test_a_batch_is_written_whole_or_not_at_all(self, store: Store):
        holder = bench(store)
        holder.send(0)
        with pytest.raises(StoreConflict):
            store.put_trials(holder.lease, [holder.candidate(1)], [holder.dispatch(1), holder.dispatch(0)])
        assert [trial.candidate.number for trial in store.trials(holder.exploration_id)] == [0]

    def test_a_trial_lost_with_its_owner_may_be_sent_a_second_time(self, store: Store):
        holder = bench(store)
        lost = holder.send(0)
        heir = holder.taken_over()
        assert heir.commit(lost, timing(1e-3)) == []
        (trial,) = store.trials(heir.exploration_id)
        assert (trial.state, trial.dispatch.attempt, trial.measurement) == (TrialState.DISPATCHED, 1, None)
        assert len(heir.commit(heir.send(0, attempt=2), timing(1e-3))) == 1
        assert store.exploration(TENANT, heir.exploration_id).spent.trials == 1

    def test_a_trial_lost_twice_is_a_crash_and_is_never_sent_again(self, store: Store):
        heir = bench(store)
        heir.send(0)
        heir = heir.taken_over()
        heir.send(0, attempt=2)
        heir = heir.taken_over()
        (trial,) = store.trials(heir.exploration_id)
        assert trial.state is TrialState.DONE
        assert trial.measurement is not None
        assert trial.measurement.result.failure.reason is FailureReason.CRASH
        assert store.exploration(TENANT, heir.exploration_id).spent.trials == 1
        heir = heir.taken_over()
        assert store.exploration(TENANT, heir.exploration_id).spent.trials == 1

    @pytest.mark.parametrize("reason", [FailureReason.CANCELED, FailureReason.DEVICE_LOST])
    def test_a_failure_that_is_not_the_candidates_is_not_counted_until_tried_again(
        self, store: Store, reason: FailureReason
    ):
        holder = bench(store)
        holder.measure(0, failed(reason))
        assert store.exploration(TENANT, holder.exploration_id).spent.trials == 0
        again = holder.send(0, attempt=2)
        assert [trial.state for trial in store.trials(holder.exploration_id)] == [TrialState.DISPATCHED]
        holder.commit(again, failed(reason))
        assert store.exploration(TENANT, holder.exploration_id).spent.trials == 1

    def test_a_first_attempt_that_comes_after_the_second_is_kept_but_changes_nothing(self, store: Store):
        holder = bench(store)
        first, second = holder.send(0), holder.send(0, attempt=2)
        holder.commit(second, timing(1e-3))
        assert len(holder.commit(first, failed(FailureReason.RUN_TIMEOUT))) == 1
        (trial,) = store.trials(holder.exploration_id)
        assert trial.measurement is not None
        assert trial.measurement.attempt == 2
        exploration = store.exploration(TENANT, holder.exploration_id)
        assert (exploration.spent.trials, exploration.best_latency_s) == (1, 1e-3)

    def test_verification_is_not_a_trial(self, store: Store):
        holder = bench(store)
        holder.measure(0, timing(2e-3))
        holder.commit(holder.send(0, purpose=Purpose.VERIFY), timing(1e-3))
        exploration = store.exploration(TENANT, holder.exploration_id)
        assert (exploration.spent.trials, exploration.best_latency_s) == (1, 2e-3)

    def test_a_schedule_that_fails_verification_is_best_no_longer(self, store: Store):
        holder = bench(store)
        holder.measure(0, timing(2e-3))
        holder.measure(1, timing(1e-3))
        holder.commit(holder.send(1, purpose=Purpose.VERIFY), failed(FailureReason.WRONG_RESULT))
        assert store.exploration(TENANT, holder.exploration_id).best_latency_s == 2e-3

    def test_trials_of_an_unknown_exploration_are_an_error(self, store: Store):
        with pytest.raises(NotFound):
            store.trials("none")

    def test_two_threads_write_at_once(self, store: Store):
        holder = bench(store)
        failures: list[BaseException] = []

        def work(numbers: range) -> None:
            try:
                for number in numbers:
                    holder.measure(number, timing(1e-3 * (1 + number)))
                    store.renew(holder.lease, 60)
            except BaseException as error:  # noqa: BLE001
                failures.append(error)

        threads = [threading.Thread(target=work, args=(range(start, 40, 2),)) for start in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        exploration = store.exploration(TENANT, holder.exploration_id)
        assert (exploration.spent.trials, exploration.best_latency_s) == (40, 1e-3)


class TestHostileText:
    TEXT = "'; DROP TABLE jobs; --/../../etc/passwd\n${HOME}\u202e\U0001f600"

    def test_text_in_any_field_is_only_text(self, store: Store, open_store: Callable[[], Store]):
        job = put_job(store, **{self.TEXT: self.TEXT})
        lease = leased(store, job, owner=self.TEXT)
        store.set_job_state(lease, JobState.RUNNING, message=self.TEXT)
        store.append_event(lease, self.TEXT, {self.TEXT: self.TEXT})
        store.put_record(TENANT, lease, record(self.TEXT, 1e-3).model_copy(update={"source": self.TEXT}))
        store.retract(TENANT, self.TEXT, self.TEXT)
        fresh = open_store()
        assert fresh.job(TENANT, job.job_id).message == self.TEXT
        assert fresh.jobs(TENANT, labels={self.TEXT: self.TEXT})[0].job_id == job.job_id
        assert fresh.record(TENANT, self.TEXT).status_reason == self.TEXT
        assert fresh.events(TENANT, job.job_id)[-1].data == {self.TEXT: self.TEXT}
        for look in (fresh.workload, fresh.job, fresh.artifact, fresh.exploration, fresh.record):
            with pytest.raises(NotFound):
                look(TENANT, f"{self.TEXT}x")

    def test_a_number_that_no_database_holds_is_bad_input(self, store: Store):
        with pytest.raises(BadInput):
            store.create_job(TENANT, spec(put_task(store), priority=2**80))
        assert store.jobs(TENANT) == []
