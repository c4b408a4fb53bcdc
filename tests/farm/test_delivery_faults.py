"""Delivery of orders despite faults of broker and blob store, older workers and clock jumps."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.farm.workers import (
    START,
    Worker,
    await_ready,
    dispatch_of,
    eventually,
    gather,
    lane_of,
    reason_of,
    registrar,
    simulated_task,
)
from tests.faults.jumping_clock import HOUR_S, Clock
from tests.servers.redis_server import RedisServer
from tunefarm_schemas.farm.lane import LaneState
from tunefarm_services.store import Store
from tunefarm_services.tuner.farm.celery_farm import CeleryFarm

pytestmark = pytest.mark.faults

OpenFarm = Callable[..., CeleryFarm]
StartWorker = Callable[..., Worker]

OLDER = (
    """
import tunefarm_schemas.farm.farm_message as messages
messages.MESSAGE_VERSION = 0
messages.Heartbeat.model_fields["version"].default = 0
messages.Heartbeat.model_rebuild(force=True)
"""
    + START
)
"""A worker of an earlier release, with another version of the messages."""


def waiting_orders(broker: RedisServer) -> Iterator[tuple[bytes, bytes]]:
    """Each queued order, with its queue's key."""
    with broker.client() as client:
        for key in client.scan_iter("*lanes.*"):
            if client.type(key) == b"list":
                yield from ((key, order) for order in client.lrange(key, 0, -1))


def test_redelivered_order_counts_once(
    broker: RedisServer, store: Store, open_farm: OpenFarm, start_worker: StartWorker
):
    workers = [start_worker(name, TUNEFARM_SIMULATED_SECONDS="0.2") for name in ("one", "two")]
    with registrar(store, broker.url):
        await_ready(store, *workers)
        farm = open_farm()
        farm.open_task(simulated_task())
        for worker in workers:
            worker.pause()
        dispatches = [dispatch_of() for _ in range(8)]
        for dispatch in dispatches:
            farm.submit(dispatch)
        eventually(lambda: len(list(waiting_orders(broker))) >= 4, what="the queue")
        with broker.client() as client:
            for key, order in list(waiting_orders(broker)):
                client.lpush(key, order)
        for worker in workers:
            worker.resume()
        found = gather(farm, len(dispatches))
        assert found.keys() == {dispatch.dispatch_id for dispatch in dispatches}
        assert {reason_of(measurement) for measurement in found.values()} == {None}
        assert farm.collect(2.0) == [], "a duplicate order was answered twice"


@pytest.mark.parametrize("damage", ["missing", "flipped"])
def test_missing_or_damaged_task_blob_is_stored_again(
    broker: RedisServer, store: Store, home: Path, open_farm: OpenFarm, start_worker: StartWorker, damage: str
):
    worker = start_worker("lane")
    with registrar(store, broker.url):
        await_ready(store, worker)
        farm = open_farm()
        farm.open_task(simulated_task())
        (task,) = (path for path in (home / "blobs").rglob("*") if path.is_file())
        if damage == "missing":
            task.unlink()
        else:
            content = task.read_bytes()
            task.chmod(0o600)
            task.write_bytes(content[:10] + bytes([content[10] ^ 4]) + content[11:])
        for _ in range(4):
            farm.submit(dispatch_of())
        assert {reason_of(measurement) for measurement in gather(farm, 4).values()} == {None}


def test_worker_with_older_messages_gets_no_work(
    broker: RedisServer, store: Store, open_farm: OpenFarm, start_worker: StartWorker
):
    with registrar(store, broker.url):
        older = start_worker("older", program=OLDER)
        newer = start_worker("newer")
        await_ready(store, newer)
        assert older.process.wait(20) == 2
        assert "version" in older.said()
        farm = open_farm()
        farm.open_task(simulated_task())
        for _ in range(20):
            farm.submit(dispatch_of())
        found = gather(farm, 20)
        assert {measurement.device_fingerprint for measurement in found.values()} == {
            lane_of(store, "newer").device.fingerprint
        }
    assert lane_of(store, "older") is None or lane_of(store, "older").state is LaneState.REFUSED


def test_worker_survives_clock_jumps(
    broker: RedisServer, store: Store, home: Path, open_farm: OpenFarm, start_worker: StartWorker
):
    clock = Clock.made_in(home)
    worker = start_worker("lane", **clock.environment, TUNEFARM_SIMULATED_SECONDS="0.03")
    with registrar(store, broker.url):
        await_ready(store, worker)
        farm = open_farm()
        farm.open_task(simulated_task())
        for ahead_s in (HOUR_S, -HOUR_S, 0):
            for _ in range(60):
                farm.submit(dispatch_of())
            time.sleep(0.5)
            clock.set_ahead(ahead_s)
            assert {reason_of(measurement) for measurement in gather(farm, 60, 20.0).values()} == {None}
            assert lane_of(store, "lane").state in {LaneState.READY, LaneState.BUSY}
