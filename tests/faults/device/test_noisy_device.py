"""A device whose reference kernels scatter is quarantined and makes no record until it is calm again."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.farm.noisy_lane import NOISE, Noise
from tests.farm.workers import eventually
from tests.faults.customers import RequestedJob, answered
from tests.faults.farm_killing import FarmKiller
from tests.faults.trials import assert_accounted_once
from tests.faults.whole_farm import WholeFarm
from tests.servers.postgres_server import empty_database
from tests.servers.redis_server import RedisServer
from tunefarm_schemas.farm.lane import Lane, LaneState
from tunefarm_schemas.tuning.job import Job, JobOutcome, JobState
from tunefarm_schemas.tuning.record import RecordStatus
from tunefarm_services.store import LOCAL_TENANT

pytestmark = pytest.mark.faults

LOUD = 20.0
"""Samples take up to this many times as long; in one check of twenty the minimum is as usual."""
CALM = 0.0
TRIALS = 64
"""Enough for the search to be still running when the noise is noticed."""
HELD_S = 8.0
"""Enough for many checks of the device, some of which succeed by chance."""
CHANGE_S = 300.0
END_S = 600.0


@contextmanager
def farm_with_noise(home: Path) -> Iterator[tuple[WholeFarm, Noise]]:
    home.mkdir()
    path = home / "noise"
    noise = Noise.none_at(path)
    lane = {
        "TUNEFARM_WORKER_NAME": "noisy",
        "TUNEFARM_WORKER_FARM": "tests.farm.noisy_lane:build",
        "TUNEFARM_WORKER_ALLOW_MISSING_CONFINEMENT": "1",
        NOISE: str(path),
    }
    with (
        empty_database("noise") as url,
        RedisServer() as broker,
        WholeFarm(home, url, broker, lanes=[lane]) as farm,
    ):
        yield farm, noise


def the_lane(farm: WholeFarm) -> Lane:
    (lane,) = farm.store.lanes.find()
    return lane


def verified(farm: WholeFarm) -> list[str]:
    records = farm.store.records.page(LOCAL_TENANT)
    return [record.record_id for record in records if record.status is RecordStatus.VERIFIED]


def await_quarantine(farm: WholeFarm) -> None:
    eventually(lambda: the_lane(farm).state is LaneState.QUARANTINED, CHANGE_S, "quarantine")
    assert "slower" in the_lane(farm).reason


def assert_held_back(farm: WholeFarm, job_id: str) -> None:
    """Assert that the device stays in quarantine for a while, and makes no record."""
    until_s = time.monotonic() + HELD_S
    while time.monotonic() < until_s:
        assert the_lane(farm).state is LaneState.QUARANTINED
        assert farm.store.jobs.get(LOCAL_TENANT, job_id).state is not JobState.FINISHED
        assert not verified(farm)
        time.sleep(0.1)


def finished(farm: WholeFarm, job_id: str) -> Job:
    """The job after it has succeeded, with every trial accounted for and a verified record."""
    eventually(lambda: farm.store.jobs.get(LOCAL_TENANT, job_id).state is JobState.FINISHED, END_S, "the job's end")
    job = farm.store.jobs.get(LOCAL_TENANT, job_id)
    assert job.outcome is JobOutcome.SUCCEEDED, job.message
    (exploration,) = farm.store.explorations.of_job(LOCAL_TENANT, job_id)
    assert exploration.spent.trials == job.spec.effort.trials
    assert_accounted_once(farm.store, exploration)
    assert len(verified(farm)) == 1
    assert farm.store.inspection.check().problems == ()
    return job


def test_device_noisy_during_search_is_quarantined_until_calm(tmp_path: Path) -> None:
    with farm_with_noise(tmp_path / "home") as (farm, noise):
        killer = FarmKiller(farm)
        job_id = answered(farm, RequestedJob.of(48, TRIALS))
        assert job_id is not None
        eventually(lambda: len(killer.look().documents) >= 8)
        noise.most = LOUD
        await_quarantine(farm)
        before = killer.look().documents
        assert len(before) < TRIALS, "the search was over before the device was seen to be noisy"
        assert_held_back(farm, job_id)
        noise.most = CALM
        eventually(lambda: the_lane(farm).state.takes_work, CHANGE_S, "the return of the lane")
        finished(farm, job_id)
        after = killer.look().documents
        assert {key: after[key] for key in before} == before
        again = [key for key in before if key[2] == 1 and (*key[:2], 2) in after]
        assert again, "what a noisy device gave was not measured again"
        assert farm.workers[0].runs


def test_device_noisy_while_idle_gets_no_work(tmp_path: Path) -> None:
    with farm_with_noise(tmp_path / "home") as (farm, noise):
        noise.most = LOUD
        await_quarantine(farm)
        job_id = answered(farm, RequestedJob.of(48, 8))
        assert job_id is not None
        assert_held_back(farm, job_id)
        assert not FarmKiller(farm).look().documents
        noise.most = CALM
        finished(farm, job_id)
        assert the_lane(farm).state.takes_work
