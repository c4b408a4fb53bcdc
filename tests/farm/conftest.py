"""A broker, a store, and simulated lanes for tests of the farm."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.farm.simulated_lane import CODE_GENERATOR, simulated_device
from tests.farm.workers import Worker
from tests.servers.redis_server import RedisServer
from tests.store.empty_database import new_database
from tunefarm_schemas.farm.redelivery import RedeliveryPolicy
from tunefarm_services.store import Store
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.tuner.farm.celery_farm import CeleryFarm
from tunefarm_services.tuner.farm.celery_farm_pool import LanePool

SIMULATED = "benchmarks.farm.simulated_lane:build"
MISBEHAVING = "tests.farm.misbehaving_lane:build"
SHORT_TIMES = RedeliveryPolicy(claim_s=3.0, lane_s=4.0, min_hold_s=20.0, max_hold_s=30.0)
"""Short times, for tests in which orders are lost."""
LONG_TIMES = RedeliveryPolicy(claim_s=60.0, lane_s=60.0)
"""Long times, for tests in which no order may be lost on a slow host."""


@pytest.fixture
def broker() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    opened = Store.open(new_database(home), home / "blobs")
    yield opened
    opened.close()


@pytest.fixture
def open_farm(broker: RedisServer, store: Store, home: Path) -> Iterator[Callable[..., CeleryFarm]]:
    """Open a farm over the simulated lanes, as one job of one tuner."""
    opened: list[CeleryFarm] = []

    def open_one(**options) -> CeleryFarm:
        pool = LanePool.registered(store.lanes, simulated_device(), CODE_GENERATOR)
        opened.append(CeleryFarm(broker.url, pool, BlobStore(home / "blobs"), **{"policy": SHORT_TIMES} | options))
        return opened[-1]

    yield open_one
    for farm in opened:
        farm.close()


@pytest.fixture
def start_worker(broker: RedisServer, home: Path) -> Iterator[Callable[..., Worker]]:
    started: list[Worker] = []

    def start(name: str, farm: str = SIMULATED, **environment: str) -> Worker:
        started.append(Worker(broker.url, home, name, farm=farm, **environment))
        return started[-1]

    yield start
    for worker in started:
        print(f"--- worker {worker.name}\n{worker.said()[-3000:]}")
        worker.__exit__(None, None, None)
