import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.store.empty_database import new_database
from tests.store.sample import TENANT, put_task
from tests.tuner.instant_farm import InstantFarm
from tunefarm.startup.fork_servers import start_search_fork_server
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.tuning.job import Effort, Job, JobSpec, JobState
from tunefarm_services.store import Store
from tunefarm_services.telemetry.metrics import Metrics
from tunefarm_services.telemetry.telemetry import Telemetry
from tunefarm_services.telemetry.traces import Traces
from tunefarm_services.tuner.service import leased_job
from tunefarm_services.tuner.service.fork_servers import ForkServers
from tunefarm_services.tuner.service.leased_job import FarmSource
from tunefarm_services.tuner.service.service import TunerService
from tunefarm_services.tuner.service.settings import TunerSettings

WAIT_S = 180.0


@pytest.fixture(autouse=True)
def waiting_jobs_are_leased_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HELD_S", "NO_DEVICE_S", "RETRY_S"):
        monkeypatch.setattr(leased_job, name, 0.2)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with_all = Store.open(new_database(tmp_path), tmp_path / "blobs")
    yield with_all
    with_all.close()


@pytest.fixture
def watcher(store: Store, tmp_path: Path) -> Iterator[Store]:
    """The same store through another connection."""
    another = Store.open(f"sqlite:///{tmp_path}/tunefarm.db", tmp_path / "blobs")
    yield another
    another.close()


@pytest.fixture(scope="session")
def searching_fork_servers() -> Iterator[ForkServers]:
    """Fork servers with TVM loaded. Tests with search jobs override ``fork_servers`` by these."""
    found = ForkServers(start_search_fork_server)
    found.present().ready(60.0)
    yield found
    found.close()


@pytest.fixture(scope="session")
def plain_fork_servers() -> Iterator[ForkServers]:
    found = ForkServers(lambda: ForkServer.start([]))
    yield found
    found.close()


@pytest.fixture
def fork_servers(plain_fork_servers: ForkServers) -> ForkServers:
    """Fork servers without TVM, for jobs that do not search."""
    return plain_fork_servers


@pytest.fixture
def tuner(store: Store, fork_servers: ForkServers) -> Callable[..., object]:
    """Run a tuner service in a thread until the block ends."""

    @contextmanager
    def running(
        farm_for: FarmSource, jobs_at_once: int = 4, traces: Traces | None = None, **options: object
    ) -> Iterator[TunerService]:
        settings = TunerSettings(jobs_at_once=jobs_at_once, poll_s=0.05, outage_s=60.0)
        telemetry = Telemetry(Metrics("tuner"), traces or Traces())
        service = TunerService(store, farm_for, fork_servers, settings, telemetry=telemetry, **options)
        stop = threading.Event()
        thread = threading.Thread(target=service.run, args=(stop,))
        thread.start()
        try:
            yield service
        finally:
            stop.set()
            thread.join(WAIT_S)
            assert not thread.is_alive()

    return running


def measure_job(store: Store, *texts: str, tenant: str = TENANT, priority: int = 0, **changes: object) -> Job:
    """A job that measures one dummy module for each text."""
    tasks = tuple(put_task(store, text, tenant=tenant) for text in texts)
    spec = JobSpec(
        tasks=tasks,
        effort=Effort(trials=len(tasks)),
        protocol_id="cpu-hot-cache/1",
        kind="measure",
        priority=priority,
    )
    return store.jobs.create(tenant, spec.model_copy(update=changes))


def wait_for(condition: Callable[[], object], within_s: float = WAIT_S) -> None:
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, "it did not happen in time"
        time.sleep(0.03)


def state_of(store: Store, job: Job) -> JobState:
    return store.jobs.get(job.tenant, job.job_id).state


def wait_finished(store: Store, *jobs: Job) -> None:
    wait_for(lambda: all(state_of(store, job) is JobState.FINISHED for job in jobs))


def instant_farms(made: list[InstantFarm], held: threading.Event | None = None) -> FarmSource:
    """A farm source that appends its farms to ``made``."""

    def farm_for(lease: object, job: object) -> InstantFarm:
        made.append(InstantFarm(held=held))
        return made[-1]

    return farm_for
