"""Any process of a farm is killed at any moment: jobs, trials and best records are kept, and no process runs on."""

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.farm.workers import eventually
from tests.faults.customers import ANSWER_S, LABEL, Customers
from tests.faults.farm_killing import FarmKiller
from tests.faults.orphans import GONE_S, adopting_orphans, running_children
from tests.faults.trials import assert_accounted_once
from tests.faults.whole_farm import WholeFarm, running_farm
from tunefarm_schemas.tuning.job import JobOutcome, JobState
from tunefarm_services.store import LOCAL_TENANT

pytestmark = pytest.mark.faults

MANY = 100


def killed(home: Path, times: int, seed: int) -> None:
    home.mkdir()
    generator = random.Random(seed)
    with adopting_orphans(), running_farm(home) as farm:
        killer = FarmKiller(farm, generator)
        with Customers(farm, random.Random(seed)) as customers:
            killer.kill(times)
            customers.leave(ANSWER_S)
        killer.wait_until_all_ended()
        killer.look()
        print(f"killed {dict(Counter(killer.victims))} over {len(customers.job_ids)} jobs")
        assert_asked_once(farm, customers)
        assert_all_went_well(farm, customers)
        assert set(farm.stop().values()) == {0}
        farm.broker.kill()
        eventually(lambda: not running_children(), GONE_S, "the end of every process")
        for part in farm.parts:
            assert "Traceback" not in part.said(), part.said()[-6000:]


def assert_asked_once(farm: WholeFarm, customers: Customers) -> None:
    """Assert that each request made one job, whose id was its answer."""
    jobs = farm.store.jobs.page(LOCAL_TENANT, limit=10_000)
    made = {job.spec.labels[LABEL]: job.job_id for job in jobs}
    assert len(made) == len(jobs), "a request was carried out twice"
    assert made.keys() <= customers.requested_jobs.keys()
    assert {name: made.get(name) for name in customers.job_ids} == customers.job_ids
    assert customers.job_ids.keys() == customers.requested_jobs.keys()


def assert_all_went_well(farm: WholeFarm, customers: Customers) -> None:
    """Assert that every job succeeded, and that every trial is accounted for once."""
    explorations = {}
    for job in farm.store.jobs.page(LOCAL_TENANT, limit=10_000):
        assert (job.state, job.outcome) == (JobState.FINISHED, JobOutcome.SUCCEEDED), (job.job_id, job.message)
        (exploration,) = farm.store.explorations.of_job(LOCAL_TENANT, job.job_id)
        assert exploration.spent.trials >= customers.requested_jobs[job.spec.labels[LABEL]].trials
        explorations[exploration.exploration_id] = exploration
    for exploration in explorations.values():
        assert_accounted_once(farm.store, exploration)
    assert farm.store.inspection.check().problems == ()


def test_farm_survives_a_hundred_kills(tmp_path: Path) -> None:
    killed(tmp_path / "home", MANY, seed=2)
