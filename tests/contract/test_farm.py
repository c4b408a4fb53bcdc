"""The contract of all farms: the one in this process, and the one behind a broker with a worker process."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from uuid import uuid4

import pytest

from tests.acceptance.hostile.measuring_farm import SETTINGS
from tests.farm.workers import PATIENT_S, Worker, await_ready, gather, lane_of, reason_of, registrar
from tests.servers.redis_server import RedisServer
from tests.workers.workloads import matmul, not_a_number, slow, task, tiled
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.farm.redelivery import RedeliveryPolicy
from tunefarm_schemas.tuning.measurement import (
    Candidate,
    CandidateOrigin,
    ComparisonOrder,
    Dispatch,
    Exported,
    ExportOrder,
    Failed,
    Purpose,
    Timing,
)
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_search.tvm.loading import LOAD_TVM
from tunefarm_services.store import Store
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.tuner.farm.celery_farm import CeleryFarm
from tunefarm_services.tuner.farm.celery_farm_pool import LanePool
from tunefarm_services.tuner.farm.ports import Farm
from tunefarm_workers.child.preload import PRELOAD
from tunefarm_workers.lane.local_farm import LocalFarm

EXTENT = 64
LARGE_EXTENT = 512
"""Unscheduled, one candidate of this size takes seconds, and as many as a farm accepts take long."""
_numbers = count(1)


@pytest.fixture(scope="module", params=["local", "celery"])
def open_farm(request, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Farm]]:
    """Open farms for one job after another, over the same device."""
    home: Path = tmp_path_factory.mktemp("home")
    with ExitStack() as parts:
        if request.param == "local":
            zygote = parts.enter_context(ForkServer.start([LOAD_TVM, PRELOAD]))
            yield lambda: LocalFarm(zygote, scratch=home / uuid4().hex, settings=SETTINGS)
            return
        server = parts.enter_context(RedisServer())
        store = Store.open(f"sqlite:///{home}/tunefarm.db", home / "blobs")
        parts.callback(store.close)
        parts.enter_context(registrar(store, server.url, lost_s=PATIENT_S))
        began_s = time.monotonic()
        worker = parts.enter_context(Worker(server.url, home, "lane"))
        await_ready(store, worker)
        print(f"the worker was ready after {time.monotonic() - began_s:.1f} s")
        lane = lane_of(store, "lane")
        pool = LanePool.of_store(store, lane.device, lane.code_generator)
        policy = RedeliveryPolicy(claim_s=PATIENT_S, lane_s=PATIENT_S)
        yield lambda: CeleryFarm(server.url, pool, BlobStore(home / "blobs"), policy=policy)


@pytest.fixture
def farm(open_farm: Callable[[], Farm]) -> Iterator[Farm]:
    opened = open_farm()
    yield opened
    opened.close()


def attempt(exploration_id: str, trace: Trace) -> Dispatch:
    number = next(_numbers)
    return Dispatch(
        dispatch_id=uuid4().hex,
        nonce=uuid4().hex,
        fence=3,
        attempt=1,
        purpose=Purpose.SEARCH,
        candidate=Candidate(
            exploration_id=exploration_id,
            number=number,
            trace=trace,
            module_hash=str(number),
            origin=CandidateOrigin.RANDOM,
        ),
    )


def test_farm_returns_each_attempt_once(farm: Farm):
    module = matmul(EXTENT)
    farm.open_task(task(module, "fine"))
    sent = {one.dispatch_id: one for one in [attempt("fine", tiled(module, rows)) for rows in (2, 4, 8, 16)] * 1} | {
        one.dispatch_id: one for one in [attempt("fine", slow(module))]
    }
    for one in sent.values():
        farm.submit(one)
    farm.set_incumbent("fine", 1.0)
    found = gather(farm, len(sent))
    assert found.keys() == sent.keys()
    for ident, measurement in found.items():
        one = sent[ident]
        assert (measurement.nonce, measurement.fence) == (one.nonce, one.fence)
        assert (measurement.exploration_id, measurement.candidate_number) == ("fine", one.candidate.number)
        assert measurement.device_fingerprint
        assert reason_of(measurement) is None
    assert farm.collect(0.0) == []
    assert farm.suspects() == []
    assert farm.room() >= 1


def test_farm_reports_failure_and_measures_next_candidate(farm: Farm):
    module = matmul(EXTENT)
    farm.open_task(task(module, "failing"))
    bad, good = attempt("failing", Trace(text='[["nonsense"],[]]')), attempt("failing", tiled(module))
    farm.submit(bad)
    farm.submit(good)
    found = gather(farm, 2)
    assert reason_of(found[bad.dispatch_id]) is FailureReason.INVALID_SCHEDULE
    assert isinstance(found[good.dispatch_id].result, Timing)


def test_cancel_returns_attempts_early(farm: Farm):
    module = matmul(LARGE_EXTENT)
    farm.open_task(task(module, "canceled"))
    room = farm.room()
    for _ in range(room):
        farm.submit(attempt("canceled", slow(module)))
    time.sleep(0.3)
    farm.cancel_all()
    found = gather(farm, room)
    assert FailureReason.CANCELED in {reason_of(measurement) for measurement in found.values()}
    farm.submit(one := attempt("canceled", tiled(module)))
    assert isinstance(gather(farm, 1)[one.dispatch_id].result, Timing)


def test_farm_compares_and_exports_schedules(farm: Farm):
    module = matmul(EXTENT)
    farm.open_task(task(module, "finish"))
    order = ComparisonOrder(exploration_id="finish", traces=(tiled(module), None), seconds_each=0.05)
    results = farm.compare(order, lambda: True).results
    assert [type(result) for result in results] == [Timing, Timing]
    exported = farm.export(ExportOrder(exploration_id="finish", trace=tiled(module), processes=2), lambda: True)
    assert isinstance(exported, Exported), exported
    assert exported.library.startswith(b"\x7fELF")
    assert len(exported.process_latencies_s) == 2


def test_comparison_ends_when_canceled(farm: Farm):
    module = matmul(EXTENT)
    farm.open_task(task(module, "unwanted"))
    order = ComparisonOrder(exploration_id="unwanted", traces=(slow(module), None), seconds_each=20.0)
    began_s = time.monotonic()
    results = farm.compare(order, lambda: time.monotonic() < began_s + 1.0).results
    assert time.monotonic() - began_s < 30.0, "both take twenty seconds each"
    assert all(isinstance(result, Failed) for result in results)


def test_function_without_finite_results_is_bad_input(farm: Farm):
    farm.open_task(task(not_a_number(), "odd"))
    farm.submit(attempt("odd", Trace(text="[[],[]]")))
    with pytest.raises(BadInput, match="verified"):
        gather(farm, 2)


def test_closing_twice_is_harmless(open_farm: Callable[[], Farm]):
    farm = open_farm()
    farm.close()
    farm.close()
