"""Jobs of tenants that are in a sharing group."""

import threading
from collections.abc import Callable

import pytest

from tests.tuner.conftest import instant_farms, wait_finished, wait_for
from tests.tuner.instant_farm import InstantFarm
from tests.tuner.job.test_service import summary_of
from tests.tuner.search.test_searching import matmul, random_job
from tunefarm_schemas.tuning.job import JobOutcome
from tunefarm_services.store import Store
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
