"""The whole farm as processes: API, two tuners, workers, real Redis and PostgreSQL, many clients at once."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.farm.workers import Worker, await_ready
from tests.servers.postgres_server import empty_database
from tests.servers.redis_server import RedisServer
from tests.service.conftest import Service, die_with_the_tests, environment_of, module_json
from tunefarm_services.store import LOCAL_TENANT, Store

SIMULATED = "benchmarks.farm.simulated_lane:build"
EXTENTS = (24, 32, 40, 48, 56)


@contextmanager
def whole_farm(home: Path, farm: str, workers: int) -> Iterator[tuple[Service, Store]]:
    """Run the API, two tuners and some workers on the devices that ``farm`` names, by default this host."""
    with ExitStack() as parts:
        url = parts.enter_context(empty_database("service"))
        broker = parts.enter_context(RedisServer())
        environment = environment_of(home, TUNEFARM_DATABASE_URL=url, TUNEFARM_BROKER_URL=broker.url)
        service = Service(home, environment, ("serve", "--port", "0", "--no-tuner"))
        store = Store.open(url, home / "blobs")  # which creates the tables
        parts.callback(store.close)
        started = [
            parts.enter_context(Worker(broker.url, home, f"worker {number}", farm=farm)) for number in range(workers)
        ]
        parts.enter_context(tuners(home, environment))
        service.start()
        parts.callback(service.end)
        await_ready(store, *started)
        yield service, store


@contextmanager
def tuners(home: Path, environment: dict[str, str]) -> Iterator[None]:
    command = [sys.executable, "-m", "tunefarm.cli.command_line", "tuner", "--jobs-at-once", "3"]
    logs = [home / f"tuner-{number}.log" for number in range(2)]
    processes = []
    for path in logs:
        with path.open("wb") as log:
            processes.append(
                subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    preexec_fn=die_with_the_tests,
                )
            )
    try:
        yield
        assert [process.poll() for process in processes] == [None, None], logs[0].read_text()[-3000:]
    finally:
        for process in processes:
            process.terminate()
        assert [process.wait(60) for process in processes] == [0, 0]


def run_jobs(service: Service, store: Store, clients: int, trials: int) -> None:
    """Run two jobs per client, of which one shares its exploration with the next client, and check the store."""
    extents = EXTENTS[:clients]

    def client(number: int) -> list[str]:
        own, neighbours = extents[number], extents[(number + 1) % clients]
        return [
            service.submit(module_json(own), trials, labels={"client": str(number)}),
            service.submit(module_json(neighbours), trials + trials // 2, labels={"client": str(number)}),
        ]

    for extent in extents:
        module_json(extent)  # in this thread, because TVM is not thread-safe
    with ThreadPoolExecutor(clients) as pool:
        job_ids = [job_id for made in pool.map(client, range(clients)) for job_id in made]
    assert len(set(job_ids)) == 2 * clients

    def states() -> list[tuple[object, ...]]:
        jobs = [service.job(job_id) for job_id in job_ids]
        measured = sum(usage.trials for usage in store.usage.of_tenant(LOCAL_TENANT))
        return [(job["state"], job["message"], measured) for job in jobs]

    service.wait_while_changing(states, lambda seen: {state for state, *_ in seen} == {"finished"})
    jobs = service.finish(*job_ids)
    assert [job["outcome"] for job in jobs] == ["succeeded"] * len(jobs), [job["message"] for job in jobs]
    explorations = set()
    for job_id in job_ids:
        records = service.get(f"/v1/jobs/{job_id}/records")["items"]
        assert any(record["status"] == "verified" for record in records)
        explorations |= {one.exploration_id for one in store.explorations.of_job(LOCAL_TENANT, job_id)}
    assert len(explorations) == clients
    total = 0
    for exploration_id in explorations:
        kept = store.trials.of_exploration(exploration_id, tenant=LOCAL_TENANT)
        assert all(trial.measurement is not None for trial in kept)
        assert len({trial.candidate.number for trial in kept}) == len(kept)
        assert len({trial.candidate.trace.text for trial in kept}) == len(kept), "a candidate was tried twice"
        spent = store.explorations.get(LOCAL_TENANT, exploration_id).spent.trials
        assert spent == len(kept) >= trials + trials // 2
        total += spent
    assert sum(usage.trials for usage in store.usage.of_tenant(LOCAL_TENANT)) == total


@pytest.mark.faults
def test_jobs_of_several_clients_on_simulated_devices(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with whole_farm(home, SIMULATED, workers=2) as (service, store):
        run_jobs(service, store, clients=3, trials=4)


@pytest.mark.faults
def test_ten_jobs_of_five_clients_on_real_devices(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with whole_farm(home, "", workers=3) as (service, store):
        run_jobs(service, store, clients=5, trials=32)
