"""The database of a farm is unreachable for longer than a lease, or full: jobs wait, and continue by themselves."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.acceptance.small_disk import fill, small_disk
from tests.farm.workers import eventually
from tests.faults.customers import LABEL, RequestedJob, answered
from tests.faults.farm_killing import FarmKiller
from tests.faults.trials import Trials, assert_accounted_once, assert_kept
from tests.faults.whole_farm import Part, WholeFarm
from tests.servers.redis_server import RedisServer
from tests.store.postgresql_server import PostgresServer, postgresql_folder
from tunefarm_schemas.farm.lane import LaneState
from tunefarm_schemas.tuning.job import JobOutcome, JobState
from tunefarm_services.store import LOCAL_TENANT
from tunefarm_services.tuner.farm.lane_registrar import LOST_S
from tunefarm_services.tuner.job.job_watch import LEASE_S

pytestmark = pytest.mark.faults

TRIALS = 400
AWAY_S = max(LEASE_S, LOST_S) + 3.0
"""Longer than any lease, and longer than lanes may be silent."""
NOTICED_S = 120.0
BACK_S = 300.0


@contextmanager
def client_of(farm: WholeFarm) -> Iterator[httpx.Client]:
    url = json.loads((farm.home / "api.json").read_text())["url"]
    token = (farm.home / "token").read_text().strip()
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30.0) as client:
        yield client


def lives_of(farm: WholeFarm) -> dict[str, int]:
    return {part.name: part.pid for part in farm.parts if part.runs}


def assert_unavailable(answer: httpx.Response) -> None:
    """Assert that the answer is a problem with Retry-After."""
    assert answer.status_code == 503, (answer.status_code, answer.text)
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["type"] == "urn:tunefarm:problem:unavailable"
    assert int(answer.headers["Retry-After"]) > 0


def assert_ended_well(farm: WholeFarm, killer: FarmKiller, requested_jobs: list[RequestedJob], before: Trials) -> None:
    """Assert that each request became one successful job, nothing was restarted, and no trial is lost or repeated."""
    killer.wait_until_all_ended()
    after = killer.look()
    assert_kept(before, after)
    jobs = farm.store.jobs.page(LOCAL_TENANT, limit=100)
    assert sorted(job.spec.labels[LABEL] for job in jobs) == sorted(
        requested_job.name for requested_job in requested_jobs
    )
    for job in jobs:
        assert (job.state, job.outcome) == (JobState.FINISHED, JobOutcome.SUCCEEDED), job.message
        (exploration,) = farm.store.explorations.of_job(LOCAL_TENANT, job.job_id)
        assert exploration.spent.trials == next(w.trials for w in requested_jobs if w.name == job.spec.labels[LABEL])
        assert_accounted_once(farm.store, exploration)
    ((deaths,),) = killer.ask("SELECT sum(search_deaths) FROM jobs")
    assert deaths == 0
    assert farm.store.inspection.check().problems == ()
    for part in farm.parts:
        assert "Traceback" not in part.said(), part.said()[-6000:]


def all_lanes_work(farm: WholeFarm) -> bool:
    return all(lane.state in {LaneState.READY, LaneState.BUSY} for lane in farm.store.lanes.find())


def test_farm_waits_for_database_outage_beyond_leases(tmp_path: Path) -> None:
    programs = postgresql_folder()
    if programs is None:
        pytest.skip("no PostgreSQL to start")
    home = tmp_path / "home"
    home.mkdir()
    with PostgresServer(programs) as database, RedisServer() as broker, WholeFarm(home, database.url, broker) as farm:
        killer, requested_jobs = FarmKiller(farm), [RequestedJob.of(48, TRIALS), RequestedJob.of(32, 20)]
        job_id = answered(farm, requested_jobs[0])
        eventually(lambda: len(killer.look().documents) >= 20)
        before, lives = killer.look(), lives_of(farm)
        database.stop()
        back_s = time.monotonic() + AWAY_S
        with client_of(farm) as client:
            while time.monotonic() < back_s:
                assert_unavailable(client.get(f"/v1/jobs/{job_id}"))
                assert_unavailable(client.get("/v1/jobs"))
                headers = {"Idempotency-Key": requested_jobs[1].name}
                assert_unavailable(client.post("/v1/jobs", json=requested_jobs[1].body, headers=headers))
                ready = client.get("/readyz")
                assert (ready.status_code, ready.json()["ready"]) == (503, False)
                assert client.get("/healthz").status_code == 200
                time.sleep(0.5)
            database.start()
            eventually(lambda: client.get("/readyz").status_code == 200, BACK_S, "readiness")
            assert client.get(f"/v1/jobs/{job_id}").json()["state"] in {"queued", "running"}
        eventually(lambda: all_lanes_work(farm), BACK_S, "the return of the lanes")
        eventually(lambda: len(killer.look().documents) > len(before.documents), BACK_S, "going on")
        assert answered(farm, requested_jobs[1]) is not None
        assert_ended_well(farm, killer, requested_jobs, before)
        assert lives_of(farm) == lives
        assert any("the store is unavailable" in tuner.said() for tuner in farm.tuners)


def test_farm_waits_for_full_database(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with (
        small_disk(tmp_path / "disk", "8m") as disk,
        RedisServer() as broker,
        WholeFarm(home, f"sqlite:///{disk}/tunefarm.db", broker) as farm,
    ):
        killer, requested_jobs = FarmKiller(farm), [RequestedJob.of(48, TRIALS), RequestedJob.of(32, 20)]
        job_id = answered(farm, requested_jobs[0])
        eventually(lambda: len(killer.look().documents) >= 20)
        lives = lives_of(farm)
        filler = fill(disk)
        holder = eventually_holding(farm)
        before = killer.look()
        with client_of(farm) as client:
            answer = client.post(
                "/v1/jobs", json=requested_jobs[1].body, headers={"Idempotency-Key": requested_jobs[1].name}
            )
            assert_unavailable(answer)
            assert "Free some space on that disk." in farm.api.said()
            # Reads are answered throughout.
            shown = client.get(f"/v1/jobs/{job_id}")
            assert shown.status_code == 200, shown.text
            assert shown.json()["state"] == "running"
        filler.unlink()
        eventually(lambda: len(killer.look().documents) > len(before.documents), BACK_S, "going on")
        assert answered(farm, requested_jobs[1]) is not None
        assert_ended_well(farm, killer, requested_jobs, before)
        assert lives_of(farm) == lives
        assert holder.runs


def eventually_holding(farm: WholeFarm) -> Part:
    """The tuner that reports that its job waits for the store."""

    def saying() -> Part | None:
        return next((tuner for tuner in farm.tuners if "the job waits for the store" in tuner.said()), None)

    eventually(saying, NOTICED_S, "noticing")
    found = saying()
    assert found is not None
    assert "Free some space on that disk." in found.said()
    return found
