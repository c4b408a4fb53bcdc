"""The contract of all stores for lanes, usage, and the queue over all tenants."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from tests.store.sample import DEVICE, TENANT, leased, put_job, put_task, spec
from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.farm.farm_message import MESSAGE_VERSION
from tunefarm_schemas.farm.lane import Lane, LaneRequest, LaneState
from tunefarm_schemas.farm.processor import Processor
from tunefarm_schemas.tuning.job import JobOutcome, JobState
from tunefarm_services.store import FenceLost, Lease, NotFound, Store

CLASS = DEVICE.device_class.device_class_id


def lane(lane_id: str = "host/0", state: LaneState = LaneState.READY, **changes: object) -> Lane:
    values = {
        "lane_id": lane_id,
        "worker_name": "worker",
        "host_name": "host",
        "device": DEVICE,
        "code_generator": "tvm+llvm",
        "kind": "cpu",
        "tvm_version": "0.27.0",
        "protocol_version": MESSAGE_VERSION,
        "software_version": "0.1.0",
        "state": state,
        "reason": "",
        "cores": (0, 1),
        "room": 4,
        "in_flight": 0,
        "started_at": utc_now(),
        "seen_at": utc_now(),
    }
    return Lane.model_validate(values | changes)


class TestLanes:
    def test_lane_has_its_latest_values(self, store: Store):
        store.lanes.put(lane())
        busy = lane(state=LaneState.BUSY, in_flight=3)
        store.lanes.put(busy)
        assert store.lanes.get("host/0") == busy
        assert store.lanes.find() == store.lanes.find(CLASS) == [busy]
        assert store.lanes.find("another class") == []
        with pytest.raises(NotFound):
            store.lanes.get("host/1")

    def test_lane_without_stored_processor_has_default(self, store: Store):
        store.lanes.put(older := lane())
        document = older.model_dump_json(exclude={"processor"})
        assert "processor" not in document
        with store.database.writing() as connection:
            connection.execute(text("UPDATE lanes SET document = :document"), {"document": document})
        assert store.lanes.get("host/0").processor == Processor()
        newer = lane(processor=Processor(architecture="aarch64"))
        store.lanes.put(newer)
        assert store.lanes.find() == [newer]

    def test_many_lanes_are_stored_at_once(self, store: Store):
        lanes = [lane(f"host/{number}") for number in range(20)]
        store.lanes.put_all(lanes[::-1])
        store.lanes.put_all([])
        assert {found.lane_id for found in store.lanes.find()} == {each.lane_id for each in lanes}

    def test_lane_request_survives_heartbeats(self, store: Store):
        store.lanes.put(lane())
        store.lanes.put(lane("host/1"))
        assert store.lanes.requests() == {}
        store.lanes.request("host/0", LaneRequest.DRAIN)
        store.lanes.put(lane())
        assert store.lanes.requests() == {"host/0": LaneRequest.DRAIN}
        store.lanes.request("host/0", LaneRequest.NONE)
        assert store.lanes.requests() == {}
        with pytest.raises(NotFound):
            store.lanes.request("host/9", LaneRequest.DRAIN)

    def test_silent_lane_is_lost_once_until_heard(self, store: Store):
        store.lanes.put(lane("host/0"))
        store.lanes.put(lane("host/1", LaneState.DRAINED))
        assert store.lanes.mark_lost(60) == []
        with store.database.writing() as connection:
            connection.execute(text("UPDATE lanes SET heard_s = heard_s - 61"))
        (lost,) = store.lanes.mark_lost(60)
        assert (lost.lane_id, lost.state) == ("host/0", LaneState.LOST)
        assert "60 s" in lost.reason
        assert store.lanes.mark_lost(60) == []
        assert store.lanes.get("host/0") == lost
        store.lanes.put(lane("host/0"))
        assert store.lanes.get("host/0").state is LaneState.READY

    def test_concurrent_lane_writers_do_not_deadlock(self, store: Store):
        lanes = [lane(f"host/{number}") for number in range(10)]
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda batch: [store.lanes.put_all(batch) for _ in range(20)], (lanes, lanes[::-1])))
        assert len(store.lanes.find()) == 10


class TestUsage:
    def test_usage_adds_up_by_day_and_class(self, store: Store):
        put_job(store), put_job(store)
        first, second = leased(store), leased(store)
        store.usage.add(first, "a", 1.5, 3)
        store.usage.add(first, "a", 0.5, 1)
        store.usage.add(second, "a", 2.0, 2)
        store.usage.add(second, "b", 8.0, 1)
        (on_a, on_b) = store.usage.of_tenant(TENANT)
        assert (on_a.device_class_id, on_a.device_seconds, on_a.trials, on_a.jobs) == (
            "a",
            4.0,
            6,
            2,
        )
        assert (on_b.device_class_id, on_b.device_seconds, on_b.trials, on_b.jobs) == (
            "b",
            8.0,
            1,
            1,
        )
        assert on_a.day == utc_now()[:10]
        assert store.usage.of_tenant(TENANT, since_day="9999-01-01") == store.usage.of_tenant("other") == []
        assert store.usage.of_all_tenants() == [on_a, on_b]

    def test_usage_is_fenced(self, store: Store):
        put_job(store)
        lease = leased(store)
        store.leases.release(lease)
        with pytest.raises(FenceLost):
            store.usage.add(lease, "a", 1.0, 1)
        assert store.usage.of_all_tenants() == []

    def test_usage_remains_after_job_is_deleted(self, store: Store):
        put_job(store)
        lease = leased(store)
        store.usage.add(lease, "a", 1.0, 1)
        store.leases.release(lease)
        store.jobs.delete(TENANT, lease.job_id)
        assert [use.jobs for use in store.usage.of_tenant(TENANT)] == [1]


def put_job_of(store: Store, tenant: str, *, priority: int = 0, **changes: object) -> str:
    asked = spec(put_task(store, tenant=tenant), priority=priority).model_copy(update=changes)
    return store.jobs.create(tenant, asked).job_id


def next_lease(store: Store) -> Lease:
    lease = store.queue.lease_next("tuner", 60.0)
    assert lease is not None
    return lease


class TestQueue:
    def test_queue_takes_highest_priority_of_all_tenants(self, store: Store):
        put_job_of(store, "a")
        urgent = put_job_of(store, "b", priority=5)
        assert next_lease(store).job_id == urgent

    def test_queue_alternates_between_tenants(self, store: Store):
        for _ in range(4):
            put_job_of(store, "many")
        put_job_of(store, "few")
        put_job_of(store, "few")
        taken = [next_lease(store).tenant for _ in range(6)]
        assert sorted(taken[:2]) == sorted(taken[2:4]) == ["few", "many"]
        assert taken[4:] == ["many", "many"]
        assert store.queue.lease_next("tuner", 60.0) is None

    def test_queue_prefers_tenant_with_less_usage(self, store: Store):
        put_job_of(store, "heavy")
        heavy = next_lease(store)
        store.usage.add(heavy, "class", 1000.0, 10)
        store.jobs.set_state(heavy, JobState.FINISHED, JobOutcome.SUCCEEDED)
        store.leases.release(heavy)
        put_job_of(store, "light")
        light = next_lease(store)
        store.usage.add(light, "class", 1.0, 10)
        store.jobs.set_state(light, JobState.FINISHED, JobOutcome.SUCCEEDED)
        store.leases.release(light)
        put_job_of(store, "heavy"), put_job_of(store, "light"), put_job_of(store, "new")
        assert [next_lease(store).tenant for _ in range(3)] == ["new", "light", "heavy"]

    def test_queue_skips_paused_and_canceled_jobs(self, store: Store):
        paused, passed_over = put_job_of(store, "a"), put_job_of(store, "a")
        canceled = put_job_of(store, "a")
        store.job_requests.pause("a", paused)
        store.job_requests.cancel("a", canceled)
        assert store.queue.lease_next("tuner", 60.0, excluded={passed_over}) is None
        assert next_lease(store).job_id == passed_over

    def test_queue_retakes_abandoned_job_with_higher_fence(self, store: Store):
        put_job_of(store, "a")
        stalled = store.queue.lease_next("stalled", 0.0)
        successor = next_lease(store)
        assert stalled is not None
        assert (successor.job_id, successor.fence) == (stalled.job_id, stalled.fence + 1)

    def test_lease_overdue_takes_longest_overdue_first(self, store: Store):
        put_job_of(store, "a", priority=9)
        put_job_of(store, "a", priority=9, deadline_s=3600.0)
        assert store.queue.lease_overdue("tuner", 60.0) is None, "no deadline has passed"
        last, first = put_job_of(store, "a", deadline_s=0.5), put_job_of(store, "b", deadline_s=0.01)
        store.job_requests.pause("b", put_job_of(store, "b", deadline_s=0.01))
        store.job_requests.cancel("b", put_job_of(store, "b", deadline_s=0.01))
        time.sleep(0.6)
        assert store.queue.lease_overdue("tuner", 60.0, excluded={last, first}) is None
        leases = [store.queue.lease_overdue("tuner", seconds) for seconds in (60.0, 0.0)]
        assert [lease and lease.job_id for lease in leases] == [first, last]
        successor = store.queue.lease_overdue("successor", 60.0)
        assert successor is not None
        assert (successor.job_id, successor.fence) == (last, 2)
        assert store.queue.lease_overdue("tuner", 60.0) is None

    def test_jobs_of_dead_owners_are_released(self, store: Store):
        put_job_of(store, "a"), put_job_of(store, "b")
        for _ in range(2):
            assert store.queue.lease_next("dead", 60.0) is not None
        store.leases.release_abandoned(None, lambda owner: owner == "dead")
        assert {next_lease(store).tenant for _ in range(2)} == {"a", "b"}

    def test_concurrent_tuners_take_every_job_once(self, store: Store):
        jobs = sorted(put_job_of(store, tenant) for tenant in ("a", "b", "c") for _ in range(10))
        taken: list[str] = []

        def take_all(owner: str) -> None:
            while lease := store.queue.lease_next(owner, 60.0):
                taken.append(lease.job_id)

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(take_all, (f"tuner {number}" for number in range(4))))
        assert sorted(taken) == jobs
