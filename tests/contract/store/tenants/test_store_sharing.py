"""The contract of all stores for sharing groups: what tenants take over from each other, and what they do not."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.contract.store.tenants.conftest import ALICE, BOB
from tests.contract.store.test_store_retention import A_DAY, age
from tests.store.sample import (
    Bench,
    bench_of,
    exploration_key,
    failed,
    lease_of,
    manifest,
    put_task,
    record,
    record_key,
    timing,
)
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.job import JobOutcome, JobState, StopReason
from tunefarm_schemas.tuning.measurement import Purpose
from tunefarm_schemas.tuning.record import MatchKind, RecordStatus, TuningRecord
from tunefarm_services.store import FenceLost, NotFound, Store

CAROL = "carol"
LIBRARY = b"library"


def put_record(holder: Bench, record_id: str, latency_s: float) -> TuningRecord:
    tenant = holder.lease.tenant
    made = record(record_id, latency_s, tenant=tenant).model_copy(update={"exploration_id": holder.exploration_id})
    return holder.store.records.put(tenant, holder.lease, made)


def take_over(holder: Bench) -> int:
    return holder.store.shared_explorations.take_over(holder.lease, holder.exploration_id)


def end(holder: Bench) -> None:
    holder.store.leases.release(holder.lease)


def exact(store: Store, tenant: str) -> list[str]:
    found = store.best_records.matches(tenant, record_key())
    return [each.record.record_id for each in found if each.match is MatchKind.EXACT]


def measured_by_alice(store: Store) -> Bench:
    """Three trials, a failure and a verified record of alice's."""
    holder = bench_of(store, ALICE)
    holder.measure(0, timing(3e-3))
    holder.measure(1, timing(1e-3))
    holder.measure(2, failed(FailureReason.BUILD_ERROR))
    holder.commit(holder.send(1, purpose=Purpose.VERIFY), timing(1.1e-3))
    store.explorations.add_effort(holder.lease, holder.exploration_id, 0, 7.0, StopReason.TRIALS)
    store.explorations.set_verified(holder.lease, holder.exploration_id)
    put_record(holder, "best", 1.1e-3)
    store.artifacts.put(ALICE, manifest("library", "best", LIBRARY), LIBRARY)
    end(holder)
    return holder


def forget(holder: Bench) -> None:
    """Finish the job of ``measured_by_alice``, and delete the only trial that retention does not keep."""
    finishing = holder.store.leases.acquire(holder.lease.tenant, holder.lease.job_id, "tuner", 60.0)
    assert finishing is not None
    holder.store.jobs.set_state(finishing, JobState.FINISHED, JobOutcome.SUCCEEDED)
    holder.store.leases.release(finishing)
    age(holder.store)
    assert holder.store.retention.apply(A_DAY).trials == 1


class TestGroups:
    def test_tenants_of_groups_are_listed(self, store: Store):
        for group, tenant in (("team", BOB), ("other", CAROL), ("team", ALICE), ("team", ALICE)):
            store.sharing_groups.join(group, tenant)
        assert store.sharing_groups.all() == {"other": (CAROL,), "team": (ALICE, BOB)}
        store.sharing_groups.leave(CAROL)
        assert store.sharing_groups.all() == {"team": (ALICE, BOB)}

    def test_tenant_is_in_one_group(self, shared: Store):
        with pytest.raises(BadInput, match="alice is in the group team"):
            shared.sharing_groups.join("other", ALICE)
        assert shared.sharing_groups.all() == {"team": (ALICE, BOB)}

    @pytest.mark.parametrize(("group", "tenant"), [("", ALICE), ("team", " "), ("x" * 101, ALICE)])
    def test_names_are_checked(self, store: Store, group: str, tenant: str):
        with pytest.raises(BadInput, match="empty or too long"):
            store.sharing_groups.join(group, tenant)
        assert store.sharing_groups.all() == {}

    def test_tenant_without_group_cannot_leave(self, store: Store):
        with pytest.raises(NotFound):
            store.sharing_groups.leave(ALICE)


class TestTakingOver:
    def test_trials_effort_and_record_are_taken_over(self, shared: Store):
        theirs = measured_by_alice(shared)
        ours = bench_of(shared, BOB)
        assert take_over(ours) == 3
        before = shared.trials.of_exploration(theirs.exploration_id, tenant=ALICE)
        after = shared.trials.of_exploration(ours.exploration_id, tenant=BOB)
        assert [each.candidate.trace for each in after] == [each.candidate.trace for each in before]
        assert [each.state for each in after] == [each.state for each in before]
        for mine, other in zip(after, before, strict=True):
            assert mine.measurement is not None
            assert other.measurement is not None
            assert mine.measurement.result == other.measurement.result
            assert mine.measurement.exploration_id == ours.exploration_id
        exploration = shared.explorations.get(BOB, ours.exploration_id)
        assert (exploration.spent.trials, exploration.spent.seconds, exploration.best_latency_s) == (3, 7.0, 1e-3)
        assert exploration.spent.stop_reason is StopReason.TRIALS
        assert exploration.is_verified
        assert exact(shared, BOB) == ["best"]
        assert shared.records.get(BOB, "best").exploration_id == ours.exploration_id
        (artifact,) = shared.artifacts.newest_first(BOB, "best")
        assert shared.artifacts.get(BOB, artifact.artifact_id) == (artifact, LIBRARY)
        assert shared.inspection.check().problems == ()

    def test_taking_over_again_adds_only_what_is_new(self, shared: Store):
        theirs = measured_by_alice(shared)
        ours = bench_of(shared, BOB)
        assert [take_over(ours), take_over(ours)] == [3, 0]
        ours.measure(3, timing(2e-3))
        end(ours)
        # Both directions: alice gets bob's own trial, and not hers back.
        assert take_over(bench_of(shared, ALICE)) == 1
        numbers = [each.candidate.number for each in shared.trials.of_exploration(theirs.exploration_id, tenant=ALICE)]
        assert numbers == [0, 1, 2, 3]
        spent = shared.explorations.get(ALICE, theirs.exploration_id)
        assert (spent.spent.trials, spent.is_verified) == (4, False)

    def test_own_trials_are_kept_beside_shared_ones(self, shared: Store):
        ours = bench_of(shared, BOB)
        ours.measure(7, timing(5e-3))
        put_record(ours, "own", 5e-3)
        end(ours)
        measured_by_alice(shared)
        assert take_over(bench_of(shared, BOB)) == 3
        found = shared.trials.of_exploration(ours.exploration_id, tenant=BOB)
        assert [each.candidate.number for each in found] == [7, 8, 9, 10]
        assert shared.explorations.get(BOB, ours.exploration_id).best_latency_s == 1e-3
        # His trial was not verified, so the fastest of all are compared again.
        assert not shared.explorations.get(BOB, ours.exploration_id).is_verified
        assert exact(shared, BOB) == ["best"]

    def test_schedule_that_was_tried_is_left_out(self, shared: Store):
        ours = bench_of(shared, BOB)
        ours.send(1)
        end(ours)
        measured_by_alice(shared)
        assert take_over(bench_of(shared, BOB)) == 2
        found = shared.trials.of_exploration(ours.exploration_id, tenant=BOB)
        assert [each.candidate.module_hash for each in found] == ["1", "0", "2"]
        assert shared.explorations.get(BOB, ours.exploration_id).best_latency_s == 3e-3

    def test_shared_trials_are_searched_on(self, shared: Store):
        measured_by_alice(shared)
        ours = bench_of(shared, BOB)
        take_over(ours)
        ours.measure(3, timing(0.5e-3))
        exploration = shared.explorations.get(BOB, ours.exploration_id)
        assert (exploration.spent.trials, exploration.best_latency_s) == (4, 0.5e-3)

    def test_result_for_a_copied_attempt_is_discarded(self, shared: Store):
        theirs = measured_by_alice(shared)
        ours = bench_of(shared, BOB)
        take_over(ours)
        for sent in (theirs.dispatch(0), ours.dispatch(0)):
            dispatch = sent.model_copy(update={"candidate": ours.candidate(0)})
            assert ours.commit(dispatch, timing(1e-9)) == []
            blank = dispatch.model_copy(update={"nonce": "", "fence": 0})
            assert ours.commit(blank, timing(1e-9)) == []

    def test_unfinished_trials_are_left_out(self, shared: Store):
        theirs = bench_of(shared, ALICE)
        theirs.measure(0, timing(1e-3))
        theirs.send(1)
        end(theirs)
        ours = bench_of(shared, BOB)
        assert take_over(ours) == 1
        assert [each.candidate.number for each in shared.trials.of_exploration(ours.exploration_id, tenant=BOB)] == [0]

    def test_claims_of_others_are_left_out(self, shared: Store):
        holder = measured_by_alice(shared)
        shared.records.put(ALICE, None, record("claim", 1e-9, status=RecordStatus.CLAIMED, tenant=ALICE))
        shared.records.retract(ALICE, "best", "wrong")
        ours = bench_of(shared, BOB)
        assert take_over(ours) == len(shared.trials.of_exploration(holder.exploration_id, tenant=ALICE))
        assert shared.records.page(BOB) == []

    def test_other_tenants_take_over_nothing(self, shared: Store):
        measured_by_alice(shared)
        shared.sharing_groups.join("other", CAROL)
        for tenant in (CAROL, "dave"):
            holder = bench_of(shared, tenant)
            assert take_over(holder) == 0
            assert shared.explorations.get(tenant, holder.exploration_id).spent.trials == 0
            assert shared.records.page(tenant) == []

    def test_search_that_ignores_the_store_stays_apart(self, shared: Store):
        measured_by_alice(shared)
        lease = lease_of(shared, BOB)
        key = exploration_key(tenant=BOB).model_copy(update={"fresh_for": lease.job_id})
        exploration = shared.explorations.open(lease, key)
        assert shared.explorations.hold(lease, exploration.exploration_id)
        assert shared.shared_explorations.take_over(lease, exploration.exploration_id) == 0

    def test_only_the_holder_takes_over(self, shared: Store):
        measured_by_alice(shared)
        lease = lease_of(shared, BOB)
        exploration = shared.explorations.open(lease, exploration_key(tenant=BOB))
        with pytest.raises(FenceLost):
            shared.shared_explorations.take_over(lease, exploration.exploration_id)

    def test_many_trials_are_taken_over(self, shared: Store):
        theirs = bench_of(shared, ALICE)
        for number in range(450):
            theirs.measure(number, timing(1e-3 + number * 1e-6))
        end(theirs)
        ours = bench_of(shared, BOB)
        assert take_over(ours) == 450
        found = shared.trials.of_exploration(ours.exploration_id, tenant=BOB)
        assert [each.candidate.trace.text for each in found] == [f"[[],[{number}]]" for number in range(450)]

    def test_shared_measurements_are_not_counted_as_work_of_the_tenant(self, shared: Store):
        measured_by_alice(shared)
        ours = bench_of(shared, BOB)
        take_over(ours)
        of_alice, of_bob = shared.overview.of_tenants([ALICE, BOB], 10)
        assert sum(of_alice.measurements_by_minute) == 4
        assert sum(of_bob.measurements_by_minute) == 0
        assert (of_alice.failures, of_bob.failures) == ({"build_error": 1}, {})

    def test_trials_that_come_back_after_retention_count_once(self, shared: Store):
        theirs = measured_by_alice(shared)
        ours = bench_of(shared, BOB)
        take_over(ours)
        end(ours)
        forget(theirs)
        assert take_over(bench_of(shared, ALICE)) == 1
        assert len(shared.trials.of_exploration(theirs.exploration_id, tenant=ALICE)) == 3
        exploration = shared.explorations.get(ALICE, theirs.exploration_id)
        assert (exploration.spent.trials, exploration.spent.seconds, exploration.is_verified) == (3, 7.0, True)

    def test_trials_in_the_place_of_deleted_ones_are_not_verified(self, shared: Store):
        theirs = measured_by_alice(shared)
        ours = bench_of(shared, BOB)
        ours.measure(7, timing(0.5e-3))
        end(ours)
        forget(theirs)
        assert take_over(bench_of(shared, ALICE)) == 1
        exploration = shared.explorations.get(ALICE, theirs.exploration_id)
        assert (exploration.best_latency_s, exploration.is_verified) == (0.5e-3, False)

    def test_what_was_taken_over_outlives_the_group(self, shared: Store):
        measured_by_alice(shared)
        ours = bench_of(shared, BOB)
        take_over(ours)
        shared.sharing_groups.leave(ALICE)
        assert exact(shared, BOB) == ["best"]
        assert take_over(ours) == 0
        assert shared.explorations.get(BOB, ours.exploration_id).spent.trials == 3


class TestRetractions:
    def test_copies_in_the_group_are_retracted(self, shared: Store):
        measured_by_alice(shared)
        take_over(bench_of(shared, BOB))
        shared.records.retract(BOB, "best", "it is wrong")
        for tenant in (ALICE, BOB):
            kept = shared.records.get(tenant, "best")
            assert (kept.status, kept.status_reason) == (RecordStatus.RETRACTED, "it is wrong")
            assert exact(shared, tenant) == []
            events = shared.events.of_job(tenant, "")
            assert [event.data["reason"] for event in events if event.kind == "retracted"] == ["it is wrong"]

    def test_record_of_one_tenant_can_be_retracted_alone(self, shared: Store):
        measured_by_alice(shared)
        take_over(bench_of(shared, BOB))
        shared.records.retract(BOB, "best", "built again", of_group=False)
        assert (exact(shared, ALICE), exact(shared, BOB)) == (["best"], [])

    def test_record_that_was_retracted_alone_is_retracted_for_all(self, shared: Store):
        measured_by_alice(shared)
        take_over(bench_of(shared, BOB))
        shared.records.retract(ALICE, "best", "built again", of_group=False)
        shared.records.retract(ALICE, "best", "it is wrong")
        reasons = [shared.records.get(tenant, "best").status_reason for tenant in (ALICE, BOB)]
        assert reasons == ["built again", "it is wrong"]
        assert (exact(shared, ALICE), exact(shared, BOB)) == ([], [])

    def test_claim_of_another_tenant_is_kept(self, shared: Store):
        for tenant in (ALICE, BOB):
            put_task(shared, tenant=tenant)
            shared.records.put(tenant, None, record("claim", 1e-3, status=RecordStatus.CLAIMED, tenant=tenant))
        for _ in range(2):
            shared.records.retract(ALICE, "claim", "wrong")
        assert shared.records.get(BOB, "claim").status is RecordStatus.CLAIMED


class TestHolding:
    def test_exploration_is_held_by_one_tenant_of_a_group(self, shared: Store):
        theirs = bench_of(shared, ALICE)
        lease = lease_of(shared, BOB)
        exploration = shared.explorations.open(lease, exploration_key(tenant=BOB))
        assert not shared.explorations.hold(lease, exploration.exploration_id)
        assert shared.explorations.hold(theirs.lease, theirs.exploration_id)
        end(theirs)
        assert shared.explorations.hold(lease, exploration.exploration_id)

    def test_holder_that_wakes_up_after_its_lease_is_fenced_off(self, shared: Store):
        theirs = bench_of(shared, ALICE)
        assert shared.leases.renew(theirs.lease, -1.0) is not None
        ours = bench_of(shared, BOB)
        assert shared.leases.renew(theirs.lease, 60.0) is not None
        with pytest.raises(FenceLost, match="exploration"):
            theirs.measure(0, timing(1e-3))
        assert not shared.explorations.hold(theirs.lease, theirs.exploration_id)
        ours.measure(0, timing(1e-3))
        end(ours)
        assert shared.explorations.hold(theirs.lease, theirs.exploration_id)

    def test_tenants_without_a_group_hold_theirs_at_once(self, store: Store):
        bench_of(store, ALICE)
        bench_of(store, BOB)

    def test_concurrent_jobs_of_a_group_do_not_hold_both(self, shared: Store, open_store: Callable[[], Store]):
        for _ in range(5):
            leases = [lease_of(shared, tenant) for tenant in (ALICE, BOB)]
            opened = [shared.explorations.open(each, exploration_key(tenant=each.tenant)) for each in leases]
            stores = [shared, open_store()]
            with ThreadPoolExecutor(2) as pool:
                held = list(
                    pool.map(
                        lambda store, lease, each: store.explorations.hold(lease, each.exploration_id),
                        stores,
                        leases,
                        opened,
                    )
                )
            assert sorted(held) == [False, True]
            for lease in leases:
                shared.leases.release(lease)
