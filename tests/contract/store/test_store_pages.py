"""The contract of all stores for pages of lists, and for similar records."""

import time

import pytest

from tests.store.sample import (
    TARGET,
    TENANT,
    bench,
    exploration_key,
    failed,
    manifest,
    put_job,
    put_task,
    record,
    record_key,
    spec,
    timing,
    workload,
)
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.job import JobState
from tunefarm_schemas.tuning.measurement import Stopped
from tunefarm_schemas.tuning.record import MatchKind, RecordStatus
from tunefarm_schemas.tuning.target import Target
from tunefarm_services.store import NotFound, Store


class TestPages:
    def test_trials_are_paged_and_filtered_by_failure(self, store: Store):
        holder = bench(store)
        for number in range(5):
            holder.measure(number, failed(FailureReason.CRASH) if number % 2 else timing(1e-3))
        every = store.trials.of_exploration(holder.exploration_id)
        first = store.trials.page(TENANT, holder.exploration_id, limit=3)
        rest = store.trials.page(TENANT, holder.exploration_id, after=first[-1].candidate.number, limit=3)
        assert first + rest == every
        failures = store.trials.page(TENANT, holder.exploration_id, failed_only=True)
        assert [trial.candidate.number for trial in failures] == [1, 3]
        holder.measure(5, failed(FailureReason.RUN_TIMEOUT))
        timeouts = store.trials.page(TENANT, holder.exploration_id, reason=FailureReason.RUN_TIMEOUT)
        assert [trial.candidate.number for trial in timeouts] == [5]
        with pytest.raises(NotFound):
            store.trials.page("other", holder.exploration_id)

    def test_points_of_chart_tell_timed_stopped_and_failed_trials_apart(self, store: Store):
        holder = bench(store)
        for number in range(40):
            holder.measure(
                number, (timing(2.0**-number), Stopped(at_least_s=1.0), failed(FailureReason.CRASH))[number % 3]
            )
        points = store.points.of_exploration(TENANT, holder.exploration_id, 10)
        assert points.end == 40
        assert [number for number, *_ in points.sample] == [0, 12, 24, 36]
        assert [number for number, *_ in points.stopped] == [4, 16, 28]
        assert points.best[-1][1] == 2.0**-39
        assert points.failures == {"crash": 13}
        assert store.points.of_exploration("other", holder.exploration_id, 10).end == 0

    def test_samples_are_spread_over_all_trials(self, store: Store):
        holder = bench(store)
        for number in range(30):
            results = (timing(1.0 + number), Stopped(at_least_s=2.0), failed(FailureReason.CANCELED))
            holder.measure(number, results[number % 3])
        evenly = store.samples.evenly(TENANT, holder.exploration_id, 15)
        assert [(each.number, each.is_bound) for each in evenly][:4] == [(0, False), (4, True), (6, False), (10, True)]
        assert evenly[0].trace == holder.candidate(0).trace.text
        fastest = store.samples.fastest(TENANT, holder.exploration_id, 2)
        assert [(each.number, each.latency_s) for each in fastest] == [(0, 1.0), (3, 4.0)]
        windows = store.samples.windows(TENANT, holder.exploration_id, 2, 5)
        assert [[each.number for each in window] for window in windows] == [[0, 1, 3, 4], [25, 27, 28]]
        assert len(store.samples.windows(TENANT, holder.exploration_id, 9, 5)) == 6
        assert store.samples.evenly("other", holder.exploration_id, 15) == []
        assert store.samples.windows("other", holder.exploration_id, 2, 5) == []

    def test_trials_are_thinned_to_points(self, store: Store):
        holder = bench(store)
        for number in range(12):
            result = failed(FailureReason.CRASH) if number == 4 else timing(1e-3 * (20 - number))
            holder.measure(number, result)
        every = store.points.of_exploration(TENANT, holder.exploration_id, 100)
        assert every.end == 12
        assert every.failures == {"crash": 1}
        assert [number for number, _ in every.best] == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11]
        assert [number for number, *_ in every.sample] == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11]
        thinned = store.points.of_exploration(TENANT, holder.exploration_id, 3)
        assert thinned.best == ((0, pytest.approx(20e-3 - 3e-3)), (5, pytest.approx(13e-3)), (8, pytest.approx(9e-3)))
        assert [number for number, *_ in thinned.sample] == [0, 8]
        fastest = store.points.fastest(TENANT, holder.exploration_id, 2)
        assert [number for number, _ in fastest] == [11, 10]
        assert store.points.of_exploration(TENANT, "unknown", 3).best == ()

    def test_job_lists_its_explorations(self, store: Store):
        first = bench(store)
        second = put_job(store)
        lease = store.leases.acquire(TENANT, second.job_id, "other", 60)
        assert lease is not None
        assert store.explorations.of_job(TENANT, second.job_id) == []
        shared = store.explorations.open(lease, exploration_key())
        assert store.explorations.of_job(TENANT, second.job_id) == [shared]
        assert store.explorations.of_job(TENANT, first.lease.job_id) == [shared]
        store.leases.release(lease)
        store.jobs.delete(TENANT, second.job_id)
        assert store.explorations.of_job(TENANT, first.lease.job_id) == [shared]
        assert store.explorations.of_job("other", first.lease.job_id) == []

    def test_records_are_filtered_by_device_class_and_status(self, store: Store):
        put_task(store)
        for number in range(4):
            key = record_key(device_class_id="even" if number % 2 == 0 else "odd")
            store.records.put(TENANT, None, record(f"r{number}", 1e-3, key=key))
        store.records.put(TENANT, None, record("r9", 1e-3, status=RecordStatus.CLAIMED))
        assert [r.record_id for r in store.records.page(TENANT, device_class_id="odd")] == ["r1", "r3"]
        assert [r.record_id for r in store.records.page(TENANT, device_class_id="even", after="r0")] == ["r2"]
        assert [r.record_id for r in store.records.page(TENANT, status=RecordStatus.CLAIMED)] == ["r9"]

    def test_workloads_targets_and_artifacts_are_paged(self, store: Store):
        ids = sorted(store.workloads.put(TENANT, workload(f"w{number}")).workload_id for number in range(3))
        page = store.workloads.page(TENANT, limit=2)
        assert [w.workload_id for w in page + store.workloads.page(TENANT, after=ids[1])] == ids
        assert store.workloads.page(TENANT, name="softmax") == store.workloads.page("other") == []
        assert store.workloads.stored(TENANT, ids[0]).arguments == workload().arguments
        store.targets.put(TENANT, TARGET)
        store.targets.put(TENANT, Target(canonical="{}", kind="cuda", num_cores=0))
        (first,) = store.targets.page(TENANT, limit=1)
        assert len(store.targets.page(TENANT, after=first.target_id)) == 1
        put_task(store)
        store.records.put(TENANT, None, record("r", 1e-3))
        for name in ("a", "b"):
            store.artifacts.put(TENANT, manifest(name, "r", b"x"), b"x")
        assert [m.artifact_id for m in store.artifacts.page(TENANT, after="a")] == ["b"]
        assert [m.artifact_id for m in store.artifacts.page(TENANT, "r", limit=1)] == ["a"]

    def test_events_can_be_limited(self, store: Store):
        job = put_job(store)
        store.job_requests.pause(TENANT, job.job_id)
        store.job_requests.resume(TENANT, job.job_id)
        assert [event.sequence for event in store.events.of_job(TENANT, job.job_id, 1, limit=1)] == [2]

    def test_jobs_are_counted_and_filtered_by_kind_and_time(self, store: Store):
        old = put_job(store)
        time.sleep(0.005)
        moment = utc_now()
        time.sleep(0.005)
        asked = spec(put_task(store)).model_copy(update={"kind": "measure"})
        new = store.jobs.create(TENANT, asked)
        assert [job.job_id for job in store.jobs.page(TENANT, kind="measure")] == [new.job_id]
        assert [job.job_id for job in store.jobs.page(TENANT, kind="tune")] == [old.job_id]
        assert [job.job_id for job in store.jobs.page(TENANT, created_after=moment)] == [new.job_id]
        store.job_requests.cancel(TENANT, old.job_id)
        assert (store.jobs.count(TENANT), store.jobs.count(TENANT, JobState.QUEUED)) == (2, 1)
        assert store.jobs.count("other") == 0
        with pytest.raises(BadInput, match="created_after"):
            store.jobs.page(TENANT, created_after="yesterday")


class TestSimilarRecords:
    @pytest.fixture(autouse=True)
    def family(self, store: Store) -> None:
        put_task(store)
        for extent in (16, 32, 64, 256, 512):
            store.workloads.put(TENANT, workload(f"m{extent}", extent=extent))
            store.records.put(TENANT, None, record(f"r{extent}", 1e-3, key=record_key(f"m{extent}")))
        store.workloads.put(TENANT, workload("unrelated", name="softmax"))
        store.records.put(TENANT, None, record("unrelated", 1e-3, key=record_key("unrelated")))

    def test_similar_records_are_ordered_by_work(self, store: Store):
        key = record_key()
        near = store.best_records.near(TENANT, key.workload_id, key.target_id, key.device_class_id, limit=3)
        assert [r.record_id for r in near] == ["r64", "r32", "r16"]
        answers = store.best_records.matches(TENANT, key)
        assert [found.record.record_id for found in answers] == ["r64", "r32", "r16", "r256", "r512"]
        assert {found.match for found in answers} == {MatchKind.SIMILAR}

    def test_numbers_in_names_of_model_functions_make_no_difference(self, store: Store):
        names = {
            "a": "fused_conv2d_add",
            "b": "fused_conv2d3_add12",
            "c": "fused_conv1d_add",
            "d": "fused_conv2d_add_relu",
        }
        for each, name in names.items():
            store.workloads.put(TENANT, workload(f"of model {each}", name=name))
            store.records.put(TENANT, None, record(f"of {each}", 1e-3, key=record_key(f"of model {each}")))
        asked = record_key("of model a")
        near = store.best_records.near(TENANT, asked.workload_id, asked.target_id, asked.device_class_id)
        assert [r.record_id for r in near] == ["of b"]

    def test_similar_records_require_same_device_class(self, store: Store):
        key = record_key("m256", code_generator="newer")
        store.records.put(TENANT, None, record("newer", 1e-4, key=key))
        near = store.best_records.near(TENANT, key.workload_id, key.target_id, "another class")
        assert near == []
        asked = record_key()
        found = store.best_records.near(TENANT, asked.workload_id, asked.target_id, asked.device_class_id)
        assert [r.record_id for r in found][-3:] == ["newer", "r256", "r512"]

    def test_retracted_record_is_replaced_by_next_best(self, store: Store):
        store.records.put(TENANT, None, record("second", 2e-3, key=record_key("m64")))
        store.records.put(TENANT, None, record("third", 3e-3, key=record_key("m64")))
        expected = {"r64": "second", "second": "third"}
        for wrong, successor in expected.items():
            store.records.retract(TENANT, wrong, "wrong")
            best = store.best_records.matches(TENANT, record_key("m64"))[0]
            assert (best.record.record_id, best.match) == (successor, MatchKind.EXACT)
        store.records.retract(TENANT, "third", "wrong")
        assert store.best_records.matches(TENANT, record_key("m64"))[0].match is MatchKind.SIMILAR

    def test_matches_list_each_other_key_once(self, store: Store):
        for number in range(30):
            store.records.put(TENANT, None, record(f"x{number}", 1e-3 + number, key=record_key(device_class_id="x")))
        store.records.put(TENANT, None, record("y", 50.0, key=record_key(device_class_id="y")))
        elsewhere = [f for f in store.best_records.matches(TENANT, record_key()) if f.match is not MatchKind.SIMILAR]
        assert [found.record.record_id for found in elsewhere] == ["x0", "y"]
