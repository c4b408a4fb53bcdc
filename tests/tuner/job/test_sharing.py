"""Jobs of tenants that are in a sharing group."""

import threading
from collections.abc import Callable

import pytest

from tests.store.sample import put_task, spec
from tests.tuner.conftest import instant_farms, wait_finished, wait_for
from tests.tuner.instant_farm import InstantFarm
from tests.tuner.job.test_service import summary_of
from tests.tuner.search.test_searching import matmul, random_job
from tests.tuner.verify.test_verifying import UnfairFarm
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.job import JobOutcome
from tunefarm_schemas.tuning.measurement import Failed
from tunefarm_schemas.tuning.record import RecordStatus
from tunefarm_services.store import Lease, Store
from tunefarm_services.tuner.job.search_orders import Place, opened_explorations
from tunefarm_services.tuner.job.supervisor import ExplorationHeld, Supervisor
from tunefarm_services.tuner.service.fork_servers import ForkServers

Tuner = Callable[..., object]
ALICE, BOB, CAROL = "alice", "bob", "carol"


@pytest.fixture
def fork_servers(searching_fork_servers: ForkServers) -> ForkServers:
    return searching_fork_servers


@pytest.fixture
def shared(store: Store) -> Store:
    for tenant in (ALICE, BOB):
        store.sharing_groups.join("team", tenant)
    return store


def test_function_that_a_partner_tuned_is_answered_without_a_trial(shared: Store, tuner: Tuner) -> None:
    made: list[InstantFarm] = []
    with tuner(instant_farms(made)):
        wait_finished(shared, first := random_job(shared, matmul(104), 8, tenant=ALICE))
        sent = sum(len(farm.submitted) for farm in made)
        wait_finished(shared, second := random_job(shared, matmul(104), 8, tenant=BOB))
        assert sum(len(farm.submitted) for farm in made) == sent
        wait_finished(shared, apart := random_job(shared, matmul(104), 8, tenant=CAROL))
    (theirs,) = summary_of(shared, first.job_id, ALICE)["tasks"]
    (ours,) = summary_of(shared, second.job_id, BOB)["tasks"]
    assert ours["answered_from_store"]
    assert (ours["trials"], ours["trials_in_store"]) == (0, 8)
    assert (ours["record_id"], ours["artifact_id"]) == (theirs["record_id"], theirs["artifact_id"])
    assert shared.jobs.get(BOB, second.job_id).outcome is JobOutcome.SUCCEEDED
    assert shared.usage.of_tenant(BOB) == []
    (others,) = summary_of(shared, apart.job_id, CAROL)["tasks"]
    assert (others["trials"], others["record_id"] == theirs["record_id"]) == (8, False)


def test_search_goes_on_from_the_trials_of_a_partner(shared: Store, tuner: Tuner) -> None:
    with tuner(instant_farms([])):
        wait_finished(shared, random_job(shared, matmul(104), 6, tenant=ALICE))
        wait_finished(shared, job := random_job(shared, matmul(104), 10, tenant=BOB))
    (task,) = summary_of(shared, job.job_id, BOB)["tasks"]
    assert (task["trials"], task["trials_in_store"]) == (4, 10)
    (exploration,) = shared.explorations.of_job(BOB, job.job_id)
    traces = [each.candidate.trace for each in shared.trials.of_exploration(exploration.exploration_id, tenant=BOB)]
    assert len(set(traces)) == len(traces) == 10, "no candidate of the partner is measured again"


def test_job_waits_for_the_search_of_a_partner(shared: Store, tuner: Tuner) -> None:
    made: list[InstantFarm] = []
    measures = threading.Event()
    with tuner(instant_farms(made, held=measures)):
        first = random_job(shared, matmul(104), 8, tenant=ALICE)
        wait_for(lambda: made and made[0].submitted)
        second = random_job(shared, matmul(104), 8, tenant=BOB)
        wait_for(lambda: shared.explorations.of_job(BOB, second.job_id))
        measures.set()
        wait_finished(shared, first, second)
    (task,) = summary_of(shared, second.job_id, BOB)["tasks"]
    assert (task["trials"], task["trials_in_store"]) == (0, 8)


@pytest.mark.parametrize(
    ("reason", "stands"), [(FailureReason.OUT_OF_MEMORY, True), (FailureReason.WRONG_RESULT, False)]
)
def test_record_that_is_proven_wrong_is_retracted_for_partners(
    shared: Store, tuner: Tuner, reason: FailureReason, stands: bool
) -> None:
    with tuner(instant_farms([])):
        wait_finished(shared, random_job(shared, matmul(56), 6, tenant=ALICE))
        wait_finished(shared, random_job(shared, matmul(56), 6, tenant=BOB))
    (standing,) = shared.records.page(ALICE)
    failed = Failed(failure=TrialFailure(reason=reason, message="So it ended."))
    with tuner(lambda lease, job: UnfairFarm(standing.trace, failed)):
        wait_finished(shared, random_job(shared, matmul(56), 12, tenant=ALICE))
    for tenant in (ALICE, BOB):
        kept = shared.records.get(tenant, standing.record_id)
        assert kept.status is (RecordStatus.VERIFIED if stands else RecordStatus.RETRACTED)
        assert stands or "wrong_result: So it ended." in kept.status_reason


def test_jobs_of_a_group_take_common_functions_in_one_order(shared: Store, fork_servers: ForkServers) -> None:
    farm = InstantFarm()

    def leased_of(tenant: str) -> Lease:
        tasks = [put_task(shared, f"function {number}", tenant=tenant) for number in range(8)]
        lease = shared.leases.acquire(tenant, shared.jobs.create(tenant, spec(*tasks)).job_id, "embedded", 60.0)
        assert lease is not None
        return lease

    def first_of(tenant: str) -> str:
        """The function that a job of the tenant takes first; it is held by another job, as all are."""
        supervisor = Supervisor(shared, farm, fork_servers.present(), owner="embedded", waits_for_explorations=False)
        with pytest.raises(ExplorationHeld) as held:
            supervisor.run(leased_of(tenant))
        return shared.explorations.get(tenant, str(held.value)).key.workload_id

    shared.sharing_groups.join("team", CAROL)
    lease = leased_of(CAROL)
    job = shared.jobs.get(CAROL, lease.job_id)
    for each in opened_explorations(shared, Place.of(farm), lease, job, lambda: None):
        assert shared.explorations.hold(lease, each.exploration_id)
    assert first_of(ALICE) == first_of(BOB)
    farm.close()
