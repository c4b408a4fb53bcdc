"""Real faults between a tuner and its lanes: no measurement is lost, and none counts twice."""

import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from benchmarks.farm.simulated_lane import CODE_GENERATOR, simulated_device
from tests.farm.conftest import MISBEHAVING
from tests.farm.workers import (
    Worker,
    await_ready,
    dispatch_of,
    eventually,
    gather,
    has_state,
    reason_of,
    registrar,
    simulated_task,
)
from tests.servers.processes import assert_gone
from tests.servers.redis_server import RedisServer
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.farm.broker import Broker
from tunefarm_schemas.farm.farm_message import (
    HEARTBEATS,
    MEASURE,
    Measured,
    MeasureMessage,
    farm_key,
    queue_name,
    replies_key,
)
from tunefarm_schemas.farm.lane import LaneState
from tunefarm_schemas.farm.order_link import OrderLink
from tunefarm_schemas.tuning.measurement import Timing
from tunefarm_services.store import Store
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.tuner.farm.celery_farm import CeleryFarm

pytestmark = pytest.mark.faults

OpenFarm = Callable[..., CeleryFarm]
StartWorker = Callable[..., Worker]


def test_killed_worker_loses_only_its_orders(
    broker: RedisServer, store: Store, open_farm: OpenFarm, start_worker: StartWorker
):
    first = start_worker("first", TUNEFARM_SIMULATED_SECONDS="1")
    second = start_worker("second", TUNEFARM_SIMULATED_SECONDS="0.02")
    with registrar(store, broker.url):
        await_ready(store, first, second)
        farm = open_farm()
        farm.open_task(simulated_task())
        for _ in range(40):
            farm.submit(dispatch_of())
        eventually(lambda: has_state(store, "first", LaneState.BUSY), what="taking")
        first.kill()
        found = gather(farm, 40)
        lost = [m for m in found.values() if reason_of(m) is FailureReason.DEVICE_LOST]
        assert 1 <= len(lost) <= 17
        assert {reason_of(m) for m in found.values()} == {None, FailureReason.DEVICE_LOST}
        eventually(lambda: has_state(store, "first", LaneState.LOST), what="noticing")
        again = [dispatch_of(attempt=2) for _ in lost]
        for dispatch in again:
            farm.submit(dispatch)
        assert {reason_of(m) for m in gather(farm, len(again)).values()} == {None}


def test_candidate_that_kills_its_worker_is_lost_then_crash(
    broker: RedisServer, store: Store, open_farm: OpenFarm, start_worker: StartWorker
):
    victims = [start_worker("one", MISBEHAVING), start_worker("two", MISBEHAVING)]
    with registrar(store, broker.url):
        await_ready(store, *victims)
        farm = open_farm()
        farm.open_task(simulated_task())
        reasons = []
        for attempt in (1, 2):
            farm.submit(dispatch_of("kill the worker", attempt=attempt))
            reasons += [reason_of(m) for m in gather(farm, 1).values()]
        assert reasons == [FailureReason.DEVICE_LOST, FailureReason.CRASH]
        assert sum(victim.process.poll() is not None for victim in victims) == 2


def test_orders_survive_paused_and_emptied_broker(
    broker: RedisServer, store: Store, open_farm: OpenFarm, start_worker: StartWorker
):
    worker = start_worker("lane", TUNEFARM_SIMULATED_SECONDS="0.05")
    with registrar(store, broker.url):
        await_ready(store, worker)
        farm = open_farm()
        farm.open_task(simulated_task())
        for _ in range(100):
            farm.submit(dispatch_of())
        time.sleep(1.0)
        broker.pause()
        time.sleep(7.0)
        broker.resume()
        time.sleep(1.0)
        broker.kill()
        time.sleep(2.0)
        broker.start()
        found = gather(farm, 100)
        assert {reason_of(m) for m in found.values()} == {None}
        farm.submit(dispatch_of())
        gather(farm, 1)


def test_late_result_of_stalled_worker_is_discarded(
    broker: RedisServer, store: Store, open_farm: OpenFarm, start_worker: StartWorker
):
    slow, other = start_worker("slow", TUNEFARM_SIMULATED_SECONDS="2"), None
    with registrar(store, broker.url):
        await_ready(store, slow)
        farm = open_farm()
        farm.open_task(simulated_task())
        farm.submit(dispatch_of())
        time.sleep(1.5)
        slow.pause()
        lost = gather(farm, 1)
        assert [reason_of(m) for m in lost.values()] == [FailureReason.DEVICE_LOST]
        other = start_worker("other")
        await_ready(store, other)
        farm.submit(dispatch_of(attempt=2))
        assert [reason_of(m) for m in gather(farm, 1).values()] == [None]
        slow.resume()
        eventually(lambda: has_state(store, "slow", LaneState.READY), what="coming back")
        time.sleep(3.0)
        assert farm.collect(0.5) == []


def test_forged_and_duplicate_results_are_discarded(
    broker: RedisServer, store: Store, open_farm: OpenFarm, start_worker: StartWorker
):
    worker = start_worker("lane", TUNEFARM_SIMULATED_SECONDS="1.5")
    with registrar(store, broker.url):
        await_ready(store, worker)
        farm = open_farm()
        farm.open_task(simulated_task())
        dispatch = dispatch_of()
        farm.submit(dispatch)
        time.sleep(0.5)
        forged = Measured(
            lane_id="nobody",
            measurement={
                "dispatch_id": dispatch.dispatch_id,
                "nonce": "guessed",
                "fence": 1,
                "exploration_id": "exploration",
                "candidate_number": dispatch.candidate.number,
                "attempt": 1,
                "purpose": "search",
                "result": {"kind": "timing", "latency_s": 1e-9, "samples_s": [1e-9]},
                "stages": {},
            },
        ).model_dump_json()
        with broker.client() as client:
            client.xadd("tunefarm." + replies_key(farm.farm_id), {"m": forged})
            client.xadd("tunefarm." + replies_key(farm.farm_id), {"m": b"{nonsense"})
            client.lpush("tunefarm." + HEARTBEATS, b"{nonsense", b'{"lane_id": "x", "version": 99}')
        (measurement,) = gather(farm, 1).values()
        assert isinstance(measurement.result, Timing)
        assert measurement.result.latency_s > 1e-4
        doubled = Measured(lane_id="lane", measurement=measurement).model_dump_json()
        with broker.client() as client:
            client.xadd("tunefarm." + replies_key(farm.farm_id), {"m": doubled})
        assert farm.collect(1.0) == []


def test_two_tuners_share_lanes(broker: RedisServer, store: Store, open_farm: OpenFarm, start_worker: StartWorker):
    workers = [start_worker(name, TUNEFARM_SIMULATED_SECONDS="0.01") for name in ("one", "two")]
    with registrar(store, broker.url), registrar(store, broker.url):
        await_ready(store, *workers)
        farms = [open_farm(), open_farm()]
        sent = []
        for farm in farms:
            farm.open_task(simulated_task())
            sent.append([dispatch_of() for _ in range(150)])
        for one, other in zip(*sent, strict=True):
            farms[0].submit(one)
            farms[1].submit(other)
        for farm, dispatches in zip(farms, sent, strict=True):
            assert gather(farm, 150).keys() == {dispatch.dispatch_id for dispatch in dispatches}


def test_orders_of_dead_tuner_are_dropped(broker: RedisServer, store: Store, home: Path, start_worker: StartWorker):
    worker = start_worker("lane", TUNEFARM_SIMULATED_SECONDS="300")
    with registrar(store, broker.url), broker.client() as client:
        await_ready(store, worker)
        address, device = Broker.at(broker.url), simulated_device()
        queue = queue_name(device.device_class.device_class_id, CODE_GENERATOR)
        link = OrderLink(client, address, queue, "dead tuner")
        link.show()
        order = MeasureMessage(
            farm_id="dead tuner",
            epoch=1,
            job_id="",
            task_digest=BlobStore(home / "blobs").put(simulated_task().model_dump_json().encode()),
            incumbent_s=None,
            dispatch=dispatch_of(),
        )
        link.send([(MEASURE, order)])
        eventually(lambda: has_state(store, "lane", LaneState.BUSY), what="taking")
        client.delete(address.key(farm_key("dead tuner")))  # as it expires after the tuner's death
        eventually(lambda: has_state(store, "lane", LaneState.READY), what="letting go")


def test_killed_worker_leaves_no_processes(broker: RedisServer, store: Store, start_worker: StartWorker):
    worker = start_worker("real", "")
    with registrar(store, broker.url):
        await_ready(store, worker)
        family = psutil.Process(worker.process.pid).children(recursive=True)
        assert family
        worker.kill()
        assert_gone(family, "a worker that was killed", 2.0)
