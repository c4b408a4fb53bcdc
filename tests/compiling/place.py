"""A board's worker and compile workers, as processes of hosts that share a broker and a blob store."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.farm.workers import PATIENT_S, START, START_S, Worker, eventually, lane_of, registrar
from tests.gateway.board import KEY, Board
from tests.servers.redis_server import RedisServer
from tests.store.empty_database import new_database
from tests.workers.workloads import TARGET
from tunefarm_schemas.farm.lane import Lane
from tunefarm_schemas.farm.redelivery import RedeliveryPolicy
from tunefarm_services.store import Store
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.tuner.farm.celery_farm import CeleryFarm
from tunefarm_services.tuner.farm.celery_farm_pool import LanePool

POOL = "test-boards"
PATIENT = RedeliveryPolicy(claim_s=60.0, lane_s=60.0)
START_WITHOUT_TORCH = f"from tunefarm_search.tvm import loading\nloading.load()\n{START}"
"""A compile worker loads TVM, which otherwise loads torch where it is installed."""


@dataclass(frozen=True)
class Place:
    """The store, broker and blobs; tests start the workers."""

    broker: RedisServer
    home: Path
    store: Store
    parts: ExitStack

    @cached_property
    def board(self) -> Board:
        return self.parts.enter_context(Board.running(self.home))

    def start_gateway(self) -> Worker:
        """A gateway that cannot link anything itself."""
        return self.start(
            "gateway",
            TUNEFARM_WORKER_KIND="rpc",
            TUNEFARM_GATEWAY_PORT=str(self.board.port),
            TUNEFARM_GATEWAY_KEY=KEY,
            TUNEFARM_GATEWAY_TARGET=TARGET,
            TUNEFARM_GATEWAY_BOARD="a test's board",
            TUNEFARM_GATEWAY_LINKER="/nonexistent",
            TUNEFARM_GATEWAY_COMPILE_POOL=POOL,
            TUNEFARM_GATEWAY_BUILD_LANES="2",
        )

    def start_compiler(self, name: str = "compiler") -> Worker:
        return self.start(
            name,
            START_WITHOUT_TORCH,
            TUNEFARM_WORKER_KIND="compile",
            TUNEFARM_COMPILE_POOL=POOL,
            TUNEFARM_COMPILE_BUILD_LANES="2",
        )

    def open_farm(self, lane_name: str = "gateway") -> CeleryFarm:
        """The farm through which a tuner measures."""
        lane = self.lane(lane_name)
        pool = LanePool.registered(self.store.lanes, lane.device, lane.code_generator)
        farm = CeleryFarm(self.broker.url, pool, BlobStore(self.home / "blobs"), policy=PATIENT)
        self.parts.callback(farm.close)
        return farm

    def lane(self, name: str) -> Lane:
        eventually(lambda: lane_of(self.store, name), START_S, f"registration of {name}")
        lane = lane_of(self.store, name)
        assert lane is not None
        return lane

    def start(self, name: str, program: str = START, **environment: str) -> Worker:
        worker = Worker(self.broker.url, self.home, name, program=program, **environment)
        self.parts.callback(_ended, worker)
        return worker


@contextmanager
def place_at(home: Path) -> Iterator[Place]:
    with ExitStack() as parts:
        broker = parts.enter_context(RedisServer())
        store = Store.open(new_database(home), home / "blobs")
        parts.callback(store.close)
        parts.enter_context(registrar(store, broker.url, lost_s=PATIENT_S))
        yield Place(broker, home, store, parts)


def _ended(worker: Worker) -> None:
    print(f"--- worker {worker.name}\n{worker.said()[-3000:]}")
    worker.__exit__(None, None, None)
