"""The contract of all stores for workloads, targets, devices, jobs and leases."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.device_peaks import PEAKS
from tests.store.sample import (
    DEVICE,
    TARGET,
    TENANT,
    bench,
    exploration_key,
    leased,
    put_job,
    put_task,
    record,
    spec,
    timing,
    workload,
)
from tunefarm_schemas.roofline import Work
from tunefarm_schemas.tuning.device import Device
from tunefarm_schemas.tuning.job import JobOutcome, JobState
from tunefarm_schemas.tuning.workload import Task
from tunefarm_services.store import FenceLost, JobFinished, JobRequest, NotFound, Store


class TestWorkloadsTargetsAndDevices:
    def test_workload_round_trips(self, store: Store):
        store.workloads.put(TENANT, workload())
        assert store.workloads.get(TENANT, workload().workload_id) == workload()

    def test_workload_is_found_by_hash_and_version(self, store: Store):
        first = store.workloads.put(TENANT, workload("first"))
        store.workloads.put(TENANT, workload("second"))
        assert store.workloads.with_hash(TENANT, first.structural_hash, "0.27.0") == [first]
        assert store.workloads.with_hash(TENANT, first.structural_hash, "0.28.0") == []

    def test_rehash_updates_workload_and_keeps_its_id(self, store: Store):
        known = store.workloads.put(TENANT, workload())
        store.workloads.put("team", workload())
        assert store.workloads.of_other_tvm("0.27.0") == []
        assert store.workloads.of_other_tvm("0.28.0") == [(TENANT, known.workload_id), ("team", known.workload_id)]
        store.workloads.rehash(TENANT, known.workload_id, "7", "0.28.0")
        assert store.workloads.of_other_tvm("0.28.0") == [("team", known.workload_id)]
        changed = known.model_copy(update={"structural_hash": "7", "tvm_version": "0.28.0"})
        assert store.workloads.with_hash(TENANT, "7", "0.28.0") == [changed]
        with pytest.raises(NotFound):
            store.workloads.rehash("nobody", known.workload_id, "7", "0.28.0")

    def test_workload_id_must_be_its_digest(self, store: Store):
        with pytest.raises(ValueError, match="digest"):
            store.workloads.put(TENANT, workload().model_copy(update={"workload_id": "../../etc/passwd"}))

    def test_target_round_trips(self, store: Store):
        store.targets.put(TENANT, TARGET)
        store.targets.put(TENANT, TARGET)
        assert store.targets.get(TARGET.target_id) == TARGET

    def test_device_keeps_its_first_values(self, store: Store):
        assert store.devices.get(TENANT, DEVICE.fingerprint) is None
        assert store.devices.put(TENANT, DEVICE) == DEVICE
        slower = DEVICE.device_class.model_dump() | {"compute_bucket": DEVICE.device_class.compute_bucket + 1}
        again = Device.model_validate(DEVICE.model_dump() | {"device_class": slower})
        assert store.devices.put(TENANT, again) == DEVICE
        assert store.devices.get(TENANT, DEVICE.fingerprint) == DEVICE
        assert store.devices.get_class(TENANT, DEVICE.device_class.device_class_id) == DEVICE.device_class

    def test_peaks_of_a_known_device_are_added_once(self, store: Store):
        store.devices.put(TENANT, DEVICE)
        measured = DEVICE.model_copy(update={"peaks": PEAKS})
        assert store.devices.put(TENANT, measured) == measured
        assert store.devices.put(TENANT, DEVICE) == measured
        assert store.devices.get(TENANT, DEVICE.fingerprint) == measured

    def test_work_of_a_known_workload_is_added_once(self, store: Store):
        without = store.workloads.put(TENANT, workload())
        work = Work(moved_bytes=8, dtype="float32")
        counted = without.model_copy(update={"work": work})
        assert store.workloads.put(TENANT, counted) == counted
        other = without.model_copy(update={"work": Work(moved_bytes=9, dtype="float32")})
        assert store.workloads.put(TENANT, other) == counted
        assert store.workloads.get(TENANT, without.workload_id) == counted

    def test_tenants_are_isolated(self, store: Store):
        task = put_task(store)
        job = put_job(store)
        store.devices.put(TENANT, DEVICE)
        store.records.put(TENANT, None, record("r", 1e-3))
        for look in (
            lambda: store.workloads.get("other", task.workload_id),
            lambda: store.targets.get(TARGET.target_id, tenant="other"),
            lambda: store.jobs.get("other", job.job_id),
            lambda: store.records.get("other", "r"),
            lambda: store.jobs.create("other", spec(task)),
            lambda: store.job_requests.cancel("other", job.job_id),
            lambda: store.jobs.delete("other", job.job_id),
            lambda: store.records.retract("other", "r", "mine"),
        ):
            with pytest.raises(NotFound):
                look()
        assert store.leases.acquire("other", job.job_id, "thief", 60) is None
        assert store.devices.get("other", DEVICE.fingerprint) is None
        assert store.jobs.page("other") == store.records.page("other") == store.events.of_job("other", job.job_id) == []
        assert store.best_records.matches("other", record("r", 1e-3).key) == []


class TestJobs:
    def test_new_job_is_queued_with_one_event(self, store: Store):
        job = put_job(store)
        assert store.jobs.get(TENANT, job.job_id) == job
        assert (job.state, job.outcome) == (JobState.QUEUED, None)
        assert [(event.sequence, event.kind) for event in store.events.of_job(TENANT, job.job_id)] == [(1, "created")]

    def test_job_for_unknown_workload_is_not_created(self, store: Store):
        put_task(store)
        with pytest.raises(NotFound, match="workload"):
            store.jobs.create(TENANT, spec(Task(workload_id="none", target_id=TARGET.target_id, name="t")))
        assert store.jobs.page(TENANT) == []

    def test_jobs_are_listed_newest_first_by_page(self, store: Store):
        created = [put_job(store).job_id for _ in range(5)]
        newest_first = sorted(created, reverse=True)
        first = [job.job_id for job in store.jobs.page(TENANT, limit=2)]
        rest = [job.job_id for job in store.jobs.page(TENANT, limit=10, after=first[-1])]
        assert first + rest == newest_first

    def test_jobs_are_filtered_by_all_labels(self, store: Store):
        both = put_job(store, team="a", model="m")
        put_job(store, team="a")
        assert [job.job_id for job in store.jobs.page(TENANT, labels={"team": "a", "model": "m"})] == [both.job_id]
        assert store.jobs.page(TENANT, labels={"team": "a' OR '1'='1"}) == []

    def test_finished_job_keeps_its_outcome(self, store: Store):
        job = put_job(store)
        lease = leased(store)
        store.jobs.set_state(lease, JobState.RUNNING)
        assert [j.job_id for j in store.jobs.unfinished(TENANT)] == [job.job_id]
        done = store.jobs.set_state(lease, JobState.FINISHED, JobOutcome.SUCCEEDED, "fine")
        assert (done.outcome, done.message, done.finished_at is not None) == (JobOutcome.SUCCEEDED, "fine", True)
        assert store.jobs.set_state(lease, JobState.RUNNING) == done
        assert store.jobs.unfinished(TENANT) == []
        assert [event.data["state"] for event in store.events.of_job(TENANT, job.job_id)] == [
            "queued",
            "running",
            "finished",
        ]

    def test_only_finished_jobs_have_an_outcome(self, store: Store):
        put_job(store)
        lease = leased(store)
        with pytest.raises(ValueError, match="outcome"):
            store.jobs.set_state(lease, JobState.FINISHED)

    def test_search_deaths_are_counted(self, store: Store):
        put_job(store)
        lease = leased(store)
        assert [store.jobs.count_search_death(lease) for _ in range(3)] == [1, 2, 3]

    def test_events_continue_after_sequence(self, store: Store):
        job = put_job(store)
        lease = leased(store)
        for number in range(3):
            store.events.append(lease, "progress", {"number": number, "nested": {"list": [1, None]}})
        assert [event.data.get("number") for event in store.events.of_job(TENANT, job.job_id, after_sequence=2)] == [
            1,
            2,
        ]


class TestLeases:
    def test_latest_event_of_a_kind_and_last_number(self, store: Store):
        job = put_job(store)
        lease = leased(store, job)
        for number in range(3):
            store.events.append(lease, "progress", {"number": number})
        store.events.append(lease, "other", {})
        latest = store.events.latest(TENANT, job.job_id, "progress")
        assert latest is not None
        assert latest.data == {"number": 2}
        assert store.events.last_sequence(TENANT, job.job_id) == latest.sequence + 1
        assert store.events.latest(TENANT, job.job_id, "summary") is None
        assert store.events.latest("other", job.job_id, "progress") is None
        assert store.events.last_sequence("other", job.job_id) == 0

    def test_job_has_one_owner_at_a_time(self, store: Store):
        job = put_job(store)
        assert store.leases.acquire(TENANT, job.job_id, "first", 60) is not None
        assert store.leases.acquire(TENANT, job.job_id, "second", 60) is None
        assert store.queue.lease_next("second", 60) is None

    def test_acquire_prefers_priority_then_age(self, store: Store):
        old, urgent = put_job(store), put_job(store, priority=5)
        assert [leased(store).job_id, leased(store).job_id] == [urgent.job_id, old.job_id]

    def test_expired_lease_is_acquired_with_higher_fence(self, store: Store):
        put_job(store)
        stalled = leased(store, owner="stalled", seconds=0)
        successor = leased(store, owner="successor")
        assert (successor.job_id, successor.fence) == (stalled.job_id, stalled.fence + 1)
        assert store.leases.renew(stalled, 60) is None

    def test_expired_lease_can_be_renewed_until_taken(self, store: Store):
        put_job(store)
        late = store.leases.renew(leased(store, seconds=0), 60)
        assert late is not None
        assert store.leases.acquire(TENANT, late.job_id, "other", 60) is None

    def test_late_owner_writes_nothing(self, store: Store):
        stalled = bench(store)
        dispatch = stalled.send(0)
        store.leases.release(stalled.lease)
        leased(store, owner="successor")
        before = store.events.of_job(TENANT, stalled.lease.job_id)
        for write in (
            lambda: store.jobs.set_state(stalled.lease, JobState.FINISHED, JobOutcome.FAILED),
            lambda: store.events.append(stalled.lease, "late", {}),
            lambda: store.jobs.count_search_death(stalled.lease),
            lambda: store.explorations.open(stalled.lease, exploration_key()),
            lambda: store.explorations.hold(stalled.lease, stalled.exploration_id),
            lambda: store.explorations.add_effort(stalled.lease, stalled.exploration_id, 1, 1.0, None),
            lambda: store.explorations.set_verified(stalled.lease, stalled.exploration_id),
            lambda: stalled.send(1),
            lambda: stalled.commit(dispatch, timing(1e-3)),
            lambda: store.records.put(TENANT, stalled.lease, record("late", 1e-9)),
        ):
            with pytest.raises(FenceLost):
                write()
        assert store.events.of_job(TENANT, stalled.lease.job_id) == before
        assert [trial.measurement for trial in store.trials.of_exploration(stalled.exploration_id)] == [None]
        assert store.records.page(TENANT) == []

    def test_released_lease_is_invalid(self, store: Store):
        put_job(store)
        lease = leased(store)
        store.leases.release(lease)
        store.leases.release(lease)
        with pytest.raises(FenceLost):
            store.events.append(lease, "late", {})
        assert leased(store).fence == lease.fence + 1

    @pytest.mark.parametrize(
        "database_url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.extended)], indirect=True
    )  # to PostgreSQL, processes are connections, as threads are
    def test_processes_never_lease_the_same_job(self, store: Store, database_url: str, tmp_path: Path):
        jobs = {put_job(store).job_id for _ in range(30)}
        code = (
            "import sys\n"
            "from tunefarm_services.store import Store\n"
            "store = Store.open(sys.argv[1], sys.argv[2])\n"
            "while lease := store.queue.lease_next('there', 60):\n"
            "    print(lease.job_id, flush=True)\n"
        )
        arguments = [sys.executable, "-c", code, database_url, str(tmp_path / "blobs")]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            taken = [process.stdout.readline().strip()]
            while lease := store.queue.lease_next("here", 60):
                taken.append(lease.job_id)
            taken += process.stdout.read().split()
        assert sorted(taken) == sorted(jobs)


class TestRequests:
    def test_cancel_finishes_queued_job_at_once(self, store: Store):
        job = put_job(store)
        assert store.job_requests.cancel(TENANT, job.job_id).outcome is JobOutcome.CANCELED
        assert store.job_requests.cancel(TENANT, job.job_id).outcome is JobOutcome.CANCELED
        assert store.queue.lease_next("tuner", 60) is None

    def test_cancel_is_pending_for_running_job(self, store: Store):
        job = put_job(store)
        lease = leased(store)
        store.jobs.set_state(lease, JobState.RUNNING)
        assert store.job_requests.pending(TENANT, job.job_id) is None
        for _ in range(2):
            assert store.job_requests.cancel(TENANT, job.job_id).state is JobState.RUNNING
        store.job_requests.pause(TENANT, job.job_id)
        assert store.job_requests.pending(TENANT, job.job_id) is JobRequest.CANCEL
        store.jobs.set_state(lease, JobState.FINISHED, JobOutcome.CANCELED)
        assert store.job_requests.pending(TENANT, job.job_id) is None
        assert sum(event.kind == "requested" for event in store.events.of_job(TENANT, job.job_id)) == 1

    @pytest.mark.parametrize("outcome", list(JobOutcome))
    def test_finished_job_rejects_requests_with_its_outcome(self, store: Store, outcome: JobOutcome):
        job = put_job(store)
        store.jobs.set_state(leased(store), JobState.FINISHED, outcome)
        refusing = [store.job_requests.pause, store.job_requests.resume, store.job_requests.cancel]
        for request in refusing[:2] if outcome is JobOutcome.CANCELED else refusing:
            with pytest.raises(JobFinished, match=outcome.value):
                request(TENANT, job.job_id)
        assert store.jobs.get(TENANT, job.job_id).outcome is outcome

    def test_paused_job_waits_until_resumed(self, store: Store):
        job = put_job(store)
        lease = leased(store)
        store.job_requests.pause(TENANT, job.job_id)
        assert store.job_requests.pending(TENANT, job.job_id) is JobRequest.PAUSE
        assert store.jobs.set_state(lease, JobState.PAUSED).state is JobState.PAUSED
        store.leases.release(lease)
        assert store.queue.lease_next("tuner", 60) is None
        assert store.job_requests.resume(TENANT, job.job_id).state is JobState.QUEUED
        assert leased(store).job_id == job.job_id

    def test_paused_job_can_be_leased_by_id(self, store: Store):
        job = put_job(store)
        store.job_requests.pause(TENANT, job.job_id)
        assert leased(store, job).job_id == job.job_id

    def test_resume_overrides_pending_pause(self, store: Store):
        job = put_job(store)
        lease = leased(store)
        store.job_requests.pause(TENANT, job.job_id)
        store.job_requests.resume(TENANT, job.job_id)
        assert store.job_requests.pending(TENANT, job.job_id) is None
        assert store.jobs.set_state(lease, JobState.PAUSED).state is JobState.QUEUED

    def test_cancel_overrides_pending_pause(self, store: Store):
        job = put_job(store)
        lease = leased(store)
        store.job_requests.pause(TENANT, job.job_id)
        store.job_requests.cancel(TENANT, job.job_id)
        assert store.jobs.set_state(lease, JobState.PAUSED).outcome is JobOutcome.CANCELED

    def test_pending_pause_is_applied_on_release(self, store: Store):
        job = put_job(store)
        lease = leased(store)
        store.job_requests.pause(TENANT, job.job_id)
        store.leases.release(lease)
        assert store.jobs.get(TENANT, job.job_id).state is JobState.PAUSED

    def test_cancel_of_paused_job_ignores_its_lease(self, store: Store):
        job = put_job(store)
        lease = leased(store)
        store.job_requests.pause(TENANT, job.job_id)
        store.jobs.set_state(lease, JobState.PAUSED)
        assert store.job_requests.cancel(TENANT, job.job_id).outcome is JobOutcome.CANCELED
        store.leases.release(lease)
        assert store.jobs.get(TENANT, job.job_id).outcome is JobOutcome.CANCELED

    def test_answered_requests_are_cleared(self, store: Store):
        job = put_job(store)
        lease = leased(store, seconds=0)
        store.jobs.set_state(lease, JobState.RUNNING)
        store.job_requests.cancel(TENANT, put_job(store, "another").job_id)
        store.job_requests.pause(TENANT, job.job_id)
        store.job_requests.resume(TENANT, job.job_id)
        assert leased(store, job).job_id == job.job_id
        assert store.job_requests.pending(TENANT, job.job_id) is None

    def test_cancel_fences_off_dead_owner(self, store: Store):
        job = put_job(store)
        stalled = leased(store, seconds=0)
        store.job_requests.cancel(TENANT, job.job_id)
        with pytest.raises(FenceLost):
            store.jobs.set_state(stalled, JobState.FINISHED, JobOutcome.SUCCEEDED)
        assert store.jobs.get(TENANT, job.job_id).outcome is JobOutcome.CANCELED
