"""A tuner is stopped for longer than its lease, and continues when another tuner has its job."""

import os
import signal
from pathlib import Path

import pytest

from tests.farm.workers import eventually
from tests.faults.customers import RequestedJob, answered
from tests.faults.farm_killing import FarmKiller
from tests.faults.trials import assert_kept
from tests.faults.whole_farm import Part, WholeFarm, running_farm
from tunefarm_schemas.tuning.job import JobOutcome, JobState
from tunefarm_services.store import LOCAL_TENANT

pytestmark = pytest.mark.faults

TRIALS = 400


def owner_of(farm: WholeFarm, killer: FarmKiller, job_id: str) -> Part | None:
    """The tuner that holds the job, or None."""
    ((owner,),) = killer.ask(f"SELECT owner FROM jobs WHERE job_id = '{job_id}'")
    return next((tuner for tuner in farm.tuners if owner is not None and f":{tuner.pid}:" in owner), None)


def test_tuner_stopped_beyond_its_lease_writes_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with running_farm(home) as farm:
        killer = FarmKiller(farm)
        job_id = answered(farm, RequestedJob.of(48, TRIALS))
        assert job_id is not None
        eventually(lambda: len(killer.look().documents) >= 20)
        sleeper = owner_of(farm, killer, job_id)
        assert sleeper is not None
        os.kill(sleeper.pid, signal.SIGSTOP)
        asleep = killer.look()
        try:
            eventually(lambda: owner_of(farm, killer, job_id) not in {sleeper, None}, what="taking over")
            eventually(lambda: len(killer.look().documents) > len(asleep.documents) + 20)
        finally:
            os.kill(sleeper.pid, signal.SIGCONT)
        awake = killer.look()
        assert_kept(asleep, awake)
        successor = owner_of(farm, killer, job_id)
        eventually(lambda: "the lease is lost" in sleeper.said(), what="noticing")
        assert owner_of(farm, killer, job_id) in {successor, None}
        killer.wait_until_all_ended()
        assert_kept(awake, killer.look())
        job = farm.store.jobs.get(LOCAL_TENANT, job_id)
        assert (job.state, job.outcome) == (JobState.FINISHED, JobOutcome.SUCCEEDED), job.message
        (exploration,) = farm.store.explorations.of_job(LOCAL_TENANT, job_id)
        trials = farm.store.trials.of_exploration(exploration.exploration_id, tenant=LOCAL_TENANT)
        assert len(trials) == exploration.spent.trials == TRIALS
        assert all(trial.measurement is not None and trial.dispatch.attempt <= 2 for trial in trials)
        assert all(tuner.runs for tuner in farm.tuners)
